//! What cells are furnished with.
