"""Request models of the resources that have no module of their own below api/http."""
