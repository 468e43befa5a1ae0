"""Tables, figures, pages and W&B runs, made from the records of runs."""
