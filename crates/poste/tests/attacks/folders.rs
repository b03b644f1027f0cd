//! Links, owners and modes in an office folder.
