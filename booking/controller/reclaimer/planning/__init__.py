"""Which pods must leave for a booked pod that fits nowhere: the plan and its inputs. Pure."""
