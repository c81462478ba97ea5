module gpu-booking.io/devcluster/null-extender

go 1.26.0
