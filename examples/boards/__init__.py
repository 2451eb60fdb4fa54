"""A leaderboard and an order board: top-k, GROUP BY and a view over a join, in React."""
