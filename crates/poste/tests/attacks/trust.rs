//! Commands in files that arrive with a repository, and offices of others.
