"""A realistic lab: nodes, people, a month of bookings, pods at work, and what people do all day."""
