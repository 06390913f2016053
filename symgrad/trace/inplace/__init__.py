"""Arrays that a traced function writes into, and views of them."""
