//! The words of the command that a tool becomes.

/// The words of a command. What a model wrote is never taken for an option.
#[derive(Debug)]
pub(super) struct Words {
    options: Vec<String>,
    values: Vec<String>,
}

impl Words {
    pub(super) fn of(command: &[&str]) -> Self {
        Self { options: command.iter().map(ToString::to_string).collect(), values: Vec::new() }
    }

    pub(super) fn option(mut self, name: &str, value: Option<impl ToString>) -> Self {
        self.options.extend(value.map(|value| format!("--{name}={}", value.to_string())));
        self
    }

    pub(super) fn each(mut self, name: &str, values: Option<Vec<String>>) -> Self {
        self.options.extend(values.unwrap_or_default().iter().map(|value| format!("--{name}={value}")));
        self
    }

    pub(super) fn flag(mut self, name: &str, is_set: Option<bool>) -> Self {
        self.options.extend(is_set.unwrap_or(false).then(|| format!("--{name}")));
        self
    }

    pub(super) fn value(mut self, value: impl ToString) -> Self {
        self.values.push(value.to_string());
        self
    }

    pub(super) fn maybe(self, value: Option<impl ToString>) -> Self {
        match value {
            Some(value) => self.value(value),
            None => self,
        }
    }

    pub(super) fn line(self) -> Vec<String> {
        let Self { mut options, values } = self;
        if !values.is_empty() {
            options.push("--".to_owned());
            options.extend(values);
        }
        options
    }
}
