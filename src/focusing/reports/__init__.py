"""What people read: figures, tables and pages, made from what runs leave."""
