module gpu-booking.io/devcluster/probe

go 1.26.0
