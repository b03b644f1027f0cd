//! What a model reaches through tools and hooks, and what it is told.
