//! Programs that speak as a person, or decide for themselves.
