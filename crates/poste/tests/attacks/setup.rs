//! Programs that a repository names in the settings of an editor.
