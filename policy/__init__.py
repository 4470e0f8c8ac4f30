"""Rules and tables: what may run, proven when it is read; pure."""
