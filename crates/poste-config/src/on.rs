//! Reads `[[on]]` of `poste.toml` and `.poste/local.toml`: which mail people are notified of, and how.

use std::collections::BTreeMap;

use toml::de::DeValue;

use crate::items::{Fields, Shape};
use crate::keys::{Key, Value, ValueKind};
use crate::read::{Named, Reader};
use poste_core::Address;
use poste_core::gates::{Program, Source};
use poste_core::limits;
use poste_core::log::Content;
use poste_core::text::{Label, Name, Topic, TypeName};
use poste_core::vocabulary::Priority;

/// The name of the list.
pub const ON: &str = "on";
/// Placeholders in the words of a command. None is free text: a subject that begins with `-` would be an option.
pub const ON_TEMPLATES: &[&str] = &["{number}", "{type}", "{priority}", "{from}", "{rule}"];

/// One `[[on]]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnRule {
    /// Identifies the rule: its cursor is kept when the rest changes.
    pub name: Label,
    pub matches: Matches,
    pub handler: HandlerConfig,
    /// Include messages that were stored before the rule was first processed.
    pub from_start: bool,
    /// For one attempt.
    pub timeout_ms: i64,
    pub attempts: u32,
    /// Delay after the first attempt; it doubles, up to [`limits::HANDLER_PAUSE_MS_MAX`].
    pub backoff_ms: i64,
    /// Maximum number of new messages it reports within a minute.
    pub per_minute: u32,
    /// Recipients of the alert when it gives up; if empty, every human.
    pub tell: Vec<Address>,
    pub source: Source,
    pub line: usize,
}

/// The mail a rule is for. A message must meet every condition that is set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matches {
    pub types: Vec<TypeName>,
    /// The lowest priority.
    pub priority: Option<Priority>,
    pub from: Vec<Name>,
    /// Addresses of the message, or members of the groups it is addressed to.
    pub to: Vec<String>,
    pub topics: Vec<Topic>,
    /// A regular expression for the subject or the body.
    pub text: Option<String>,
}

/// How people are notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandlerConfig {
    Telegram { token: SecretPlace, chat: String, url: String },
    Slack { url: SecretPlace },
    Webhook { url: String, secret: SecretPlace },
    Email(EmailConfig),
    Desktop,
    Exec { words: Vec<String> },
    Log,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmailConfig {
    /// `HOST` or `HOST:PORT`.
    pub server: String,
    pub tls: Tls,
    pub user: Option<String>,
    pub password: Option<SecretPlace>,
    pub sender: String,
    pub recipients: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// TLS from the first byte.
    Wrapped,
    /// Negotiated in plain text, and required.
    Starttls,
    Off,
}

/// Where a secret is kept, never the secret itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretPlace {
    /// A variable of the environment.
    Env(String),
    /// A file: absolute, below `~/`, or relative to the folder of `poste.toml`.
    File(String),
}

impl std::fmt::Display for SecretPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Env(name) => write!(f, "${name}"),
            Self::File(path) => write!(f, "the file {path}"),
        }
    }
}

impl HandlerConfig {
    pub fn word(&self) -> &'static str {
        match self {
            Self::Telegram { .. } => "telegram",
            Self::Slack { .. } => "slack",
            Self::Webhook { .. } => "webhook",
            Self::Email(_) => "email",
            Self::Desktop => "desktop",
            Self::Exec { .. } => "exec",
            Self::Log => "log",
        }
    }

    /// What it runs on this machine or sends elsewhere, which needs trust. `None` if it does neither.
    pub fn trusted_action(&self) -> Option<String> {
        Some(match self {
            Self::Telegram { token, chat, url } => format!("telegram {url} chat {chat}, token in {token}"),
            Self::Slack { url } => format!("slack, address in {url}"),
            Self::Webhook { url, secret } => format!("webhook {url}, signed with {secret}"),
            Self::Email(email) => {
                let password =
                    email.password.as_ref().map(|place| format!(", password in {place}")).unwrap_or_default();
                format!("email by {} to {}{password}", email.server, email.recipients.join(" "))
            }
            Self::Desktop => "desktop notification".to_owned(),
            Self::Exec { words } => Program::Words(words.clone()).text(),
            Self::Log => return None,
        })
    }
}

const fn key(name: &'static str, takes: ValueKind) -> Key {
    Key { section: ON, name, takes, built_in: None }
}

const HANDLERS: [&str; 7] = ["telegram", "slack", "webhook", "email", "desktop", "exec", "log"];
const TLS: [&str; 3] = ["starttls", "tls", "none"];

const VALUES: &[Key] = &[
    key("handler", ValueKind::OneOf(&HANDLERS)),
    key("priority", ValueKind::Priority),
    key("since", ValueKind::OneOf(&["now", "start"])),
    key("timeout", ValueKind::Length { min: limits::SECOND_MS, max: limits::HANDLER_TIMEOUT_MS_MAX }),
    key("attempts", ValueKind::Count { min: 1, max: limits::HANDLER_ATTEMPTS_MAX }),
    key("backoff", ValueKind::Length { min: 10, max: limits::HOUR_MS }),
    key("per_minute", ValueKind::Count { min: 1, max: limits::HANDLER_PACE_MAX }),
    key("tls", ValueKind::OneOf(&TLS)),
];
const TEXTS: &[&str] = &[
    "name",
    "text",
    "url",
    "chat",
    "server",
    "user",
    "sender",
    "token_env",
    "token_file",
    "url_env",
    "url_file",
    "secret_env",
    "secret_file",
    "password_env",
    "password_file",
];
const COMMAND: &str = "command";
const SHAPE: Shape = Shape {
    list: ON,
    several: "rules",
    max: limits::ON_RULES_MAX,
    values: VALUES,
    texts: TEXTS,
    lists: &["type", "from", "to", "topic", "recipients", "tell"],
    secrets: &["token", "secret", "password"],
    command: "[\"./notify.sh\", \"{number}\"]",
    templates: ON_TEMPLATES,
};

pub(crate) fn read(reader: &mut Reader<'_>, name: &Named<'_>, value: &DeValue<'_>) {
    SHAPE.each(reader, name, value, |reader, fields, line| match Reading(fields).rule(reader.source, line) {
        Ok(rule) if reader.file.on.iter().any(|other| other.name == rule.name) => {
            vec![format!("on {}: the name is taken by another rule", rule.name)]
        }
        Ok(rule) => {
            reader.file.on.push(rule);
            Vec::new()
        }
        Err(problems) => problems,
    });
}

struct Reading(Fields);

impl Reading {
    fn rule(mut self, source: Source, line: usize) -> Result<OnRule, Vec<String>> {
        let mut problems = Vec::new();
        let name: Option<Label> = match self.0.texts.remove("name").map(|name| name.parse()) {
            Some(Ok(name)) => Some(name),
            Some(Err(why)) => {
                problems.push(format!("on.name: {why}"));
                None
            }
            None => None,
        };
        let shown = name.as_ref().map_or_else(|| ON.to_owned(), |name| format!("on {name}"));
        let mut say = |why: String| problems.push(format!("{shown}: {why}"));
        if name.is_none() {
            say("it has no name".to_owned());
        }
        let matches = self.matches(&mut say);
        let tell = self.parsed::<Address>("tell", &mut say);
        let timeout_ms = self.0.length("timeout").unwrap_or(limits::HANDLER_TIMEOUT_MS_DEFAULT);
        let backoff_ms = self.0.length("backoff").unwrap_or(limits::HANDLER_BACKOFF_MS_DEFAULT);
        let mut count =
            |key: &str, usual: u32| self.0.count(key).map_or(usual, |count| count.try_into().unwrap_or(usual));
        let attempts = count("attempts", limits::HANDLER_ATTEMPTS_DEFAULT);
        let per_minute = count("per_minute", limits::HANDLER_PACE_DEFAULT);
        let from_start = matches!(self.0.values.remove("since"), Some(Value::Word("start")));
        let handler = self.handler(&mut say);
        // Keys that are left belong to another handler and would silently be ignored.
        let left: Vec<&str> =
            self.0.texts.keys().chain(self.0.lists.keys()).chain(self.0.values.keys()).copied().collect();
        if let Some(handler) = &handler
            && let Some(left) = left.first().copied().or(self.0.command.as_ref().map(|_| COMMAND))
        {
            say(format!("{left} is not a key of {}", handler.word()));
        }
        match (handler, name) {
            (Some(handler), Some(name)) if problems.is_empty() => Ok(OnRule {
                name,
                matches,
                handler,
                from_start,
                timeout_ms,
                attempts,
                backoff_ms,
                per_minute,
                tell,
                source,
                line,
            }),
            _ => Err(problems),
        }
    }

    fn matches(&mut self, say: &mut impl FnMut(String)) -> Matches {
        let text = self.0.texts.remove("text");
        if let Some(pattern) = &text
            && let Err(why) = text_pattern(pattern)
        {
            let why = why.to_string();
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            say(format!("text is not a valid regular expression: {why}"));
        }
        let priority = match self.0.values.remove("priority") {
            Some(Value::Priority(priority)) => Some(priority),
            _ => None,
        };
        let mut from = Vec::new();
        for name in self.0.lists.remove("from").unwrap_or_default() {
            match Name::in_log(&name) {
                Ok(name) => from.push(name),
                Err(why) => say(format!("from: {why}")),
            }
        }
        let to: Vec<Address> = self.parsed("to", say);
        let matches = Matches {
            types: self.parsed("type", say),
            priority,
            from,
            to: to.iter().map(ToString::to_string).collect(),
            topics: self.parsed("topic", say),
            text,
        };
        if matches == Matches::default() {
            say("it has no condition: set type, priority, from, to, topic or text".to_owned());
        }
        matches
    }

    fn handler(&mut self, say: &mut impl FnMut(String)) -> Option<HandlerConfig> {
        let Some(Value::Word(word)) = self.0.values.remove("handler") else {
            say(format!("it has no handler: set it to one of {}", HANDLERS.join(", ")));
            return None;
        };
        Some(match word {
            "telegram" => {
                let token = self.secret("token", say)?;
                let url = self.url(say).unwrap_or_else(|| "https://api.telegram.org".to_owned());
                HandlerConfig::Telegram { token, chat: self.needed("chat", word, say)?, url }
            }
            // The URL of an incoming webhook is enough to post to it, so it is a secret.
            "slack" => HandlerConfig::Slack { url: self.secret("url", say)? },
            "webhook" => {
                let secret = self.secret("secret", say);
                let url = self.url(say);
                if url.is_none() && !self.0.texts.contains_key("url") {
                    say("webhook needs url".to_owned());
                }
                HandlerConfig::Webhook { url: url?, secret: secret? }
            }
            "email" => HandlerConfig::Email(self.email(say)?),
            "desktop" => HandlerConfig::Desktop,
            "exec" => match self.0.command.take() {
                Some(words) => HandlerConfig::Exec { words },
                None => {
                    say("exec needs command, a list of words".to_owned());
                    return None;
                }
            },
            _ => HandlerConfig::Log,
        })
    }

    fn email(&mut self, say: &mut impl FnMut(String)) -> Option<EmailConfig> {
        let server = self.needed("server", "email", say);
        let sender = self.needed("sender", "email", say);
        let recipients = self.0.lists.remove("recipients").unwrap_or_default();
        if recipients.is_empty() {
            say("email needs recipients".to_owned());
        }
        for address in sender.iter().chain(&recipients) {
            let plain = |sign: char| sign.is_ascii_graphic() && !"<>()[]\\,;:\"".contains(sign);
            let is_one = address.split_once('@').is_some_and(|(name, host)| !name.is_empty() && !host.is_empty());
            if !is_one || !address.chars().all(plain) || address.matches('@').count() != 1 {
                say(format!("{address:?} is not an address of the form name@host"));
            }
        }
        let tls = match self.0.values.remove("tls") {
            Some(Value::Word("tls")) => Tls::Wrapped,
            Some(Value::Word("none")) => Tls::Off,
            _ => Tls::Starttls,
        };
        let user = self.0.texts.remove("user");
        let has_password = ["password_env", "password_file"].iter().any(|key| self.0.texts.contains_key(key));
        let password = if has_password { self.secret("password", say) } else { None };
        if user.is_some() != has_password {
            say("user needs password_env or password_file, and the other way round".to_owned());
        }
        let server = server?;
        let host = server.rsplit_once(':').map_or(server.as_str(), |(host, _)| host);
        if tls == Tls::Off && has_password && !["localhost", "127.0.0.1", "[::1]"].contains(&host) {
            say("a password would be sent in plain text: tls = \"none\" is only for a local server".to_owned());
        }
        Some(EmailConfig { server, tls, user, password, sender: sender?, recipients })
    }

    fn needed(&mut self, key: &'static str, handler: &str, say: &mut impl FnMut(String)) -> Option<String> {
        let given = self.0.texts.remove(key);
        if given.is_none() {
            say(format!("{handler} needs {key}"));
        }
        given
    }

    fn secret(&mut self, what: &str, say: &mut impl FnMut(String)) -> Option<SecretPlace> {
        let of = |texts: &mut BTreeMap<&'static str, String>, end: &str| {
            let key = TEXTS.iter().find(|key| **key == format!("{what}_{end}"))?;
            texts.remove(key)
        };
        let env = of(&mut self.0.texts, "env");
        let file = of(&mut self.0.texts, "file");
        match (env, file) {
            (Some(name), None) => {
                let plain = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
                if name.is_empty() || !name.chars().all(plain) || name.starts_with(|sign: char| sign.is_ascii_digit()) {
                    // The value may be the secret itself, so it must not appear in the error.
                    say(format!("{what}_env must be the name of a variable, not its value"));
                }
                Some(SecretPlace::Env(name))
            }
            (None, Some(path)) => Some(SecretPlace::File(path)),
            (Some(_), Some(_)) => {
                say(format!("use {what}_env or {what}_file, not both"));
                None
            }
            (None, None) => {
                say(format!("it needs {what}_env or {what}_file"));
                None
            }
        }
    }

    /// A URL that may be in a file because it contains no secret.
    fn url(&mut self, say: &mut impl FnMut(String)) -> Option<String> {
        let url = self.0.texts.remove("url")?;
        let content = Content { body: url.as_str().into(), ..Content::default() };
        let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let Some(rest) = rest.filter(|rest| !rest.is_empty() && url.chars().all(|sign| sign.is_ascii_graphic())) else {
            say("url must begin with https:// or http://".to_owned());
            return Some(url);
        };
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if place.contains('@') || !poste_core::secrets::find(&content).is_empty() {
            say("url contains a secret, which does not belong in a file".to_owned());
        }
        Some(url)
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &mut self,
        key: &str,
        say: &mut impl FnMut(String),
    ) -> Vec<T> {
        let mut parsed = Vec::new();
        for text in self.0.lists.remove(key).unwrap_or_default() {
            match text.parse() {
                Ok(value) => parsed.push(value),
                Err(why) => say(format!("{key}: {why}")),
            }
        }
        parsed
    }
}

/// Compiles the pattern of a rule. Its size is limited, as patterns may come with a repository.
pub fn text_pattern(pattern: &str) -> Result<regex::Regex, regex::Error> {
    regex::RegexBuilder::new(pattern).size_limit(limits::TEXT_PATTERN_BYTES_MAX).build()
}
