use poste_config::{ConfigFile, OnRule, check_local, commands};
use poste_core::limits;

use super::problems;

fn rules(text: &str) -> Vec<OnRule> {
    let (file, problems) = ConfigFile::check(text);
    assert!(problems.is_empty(), "{problems:?}");
    file.on
}

const PAGER: &str = "[[on]]\nname = \"pager\"\ntype = \"alert\"\n";

#[test]
fn every_handler_is_read() {
    let text = "\
        [[on]]\nname = \"t\"\ntype = [\"alert\", \"question\"]\npriority = \"high\"\nfrom = \"ci\"\nto = [\"role:ops\", \"ann\"]\n\
        topic = \"Deploys\"\ntext = \"(?i)disk full\"\nhandler = \"telegram\"\ntoken_env = \"BOT\"\nchat = \"-100\"\n\
        since = \"start\"\ntimeout = \"5s\"\nattempts = 3\nbackoff = \"100ms\"\nper_minute = 7\ntell = \"ann\"\n\
        [[on]]\nname = \"s\"\npriority = \"low\"\nhandler = \"slack\"\nurl_file = \"~/slack\"\n\
        [[on]]\nname = \"w\"\ntype = \"alert\"\nhandler = \"webhook\"\nurl = \"https://example.org/hook\"\nsecret_env = \"W\"\n\
        [[on]]\nname = \"e\"\ntype = \"alert\"\nhandler = \"email\"\nserver = \"mail.example.org:587\"\nsender = \"p@example.org\"\n\
        recipients = \"ops@example.org\"\nuser = \"p\"\npassword_env = \"MAIL\"\n\
        [[on]]\nname = \"d\"\ntype = \"alert\"\nhandler = \"desktop\"\n\
        [[on]]\nname = \"x\"\ntype = \"alert\"\nhandler = \"exec\"\ncommand = [\"./tell.sh\", \"#{number}\"]\n\
        [[on]]\nname = \"l\"\nfrom = \"poste\"\nhandler = \"log\"\n";
    let rules = rules(text);
    let words: Vec<&str> = rules.iter().map(|rule| rule.handler.word()).collect();
    assert_eq!(words, ["telegram", "slack", "webhook", "email", "desktop", "exec", "log"]);
    let first = &rules[0];
    assert!(first.from_start && first.matches.types.len() == 2 && first.matches.to.len() == 2);
    assert_eq!((first.timeout_ms, first.attempts, first.backoff_ms, first.per_minute), (5_000, 3, 100, 7));
    assert_eq!((rules[1].attempts, rules[1].from_start), (limits::HANDLER_ATTEMPTS_DEFAULT, false));
}

#[test]
fn everything_that_reaches_out_is_to_be_trusted() {
    let text = format!(
        "{PAGER}handler = \"webhook\"\nurl = \"https://example.org\"\nsecret_env = \"W\"\n\
         [[on]]\nname = \"l\"\ntype = \"alert\"\nhandler = \"log\"\n"
    );
    let (file, _) = ConfigFile::check(&text);
    let found: Vec<(String, usize, String)> =
        commands(&file).into_iter().map(|found| (found.key, found.line, found.command)).collect();
    let what = "webhook https://example.org, signed with $W".to_owned();
    assert_eq!(found, [("on.pager.handler".to_owned(), 1, what)]);
}

#[test]
fn no_secret_stands_in_a_file_and_none_in_an_error() {
    let literal = "hunter2-very-secret";
    for (lines, expected) in [
        (format!("handler = \"telegram\"\ntoken = \"{literal}\"\n"), "line 5: on.token: a secret does not belong"),
        (format!("handler = \"telegram\"\nchat = \"1\"\ntoken_env = \"{literal}\"\n"), "the name of a variable"),
        (format!("handler = \"slack\"\nurl = \"https://hooks.example.org/{literal}\"\n"), "url_env or url_file"),
        (
            format!("handler = \"webhook\"\nsecret_env = \"W\"\nurl = \"https://u:{literal}@example.org\"\n"),
            "url contains a secret",
        ),
        (
            format!("handler = \"email\"\nserver = \"h\"\npassword = \"{literal}\"\n"),
            "line 6: on.password: a secret does not belong in a file; name its place: password_env or password_file",
        ),
    ] {
        for found in [problems(&format!("{PAGER}{lines}")), {
            let local = check_local(&format!("{PAGER}{lines}"));
            local.into_iter().map(|problem| problem.to_string()).collect()
        }] {
            assert!(found.iter().any(|problem| problem.contains(expected)), "{lines}: {found:?}");
            assert!(found.iter().all(|problem| !problem.contains(literal)), "{found:?}");
        }
    }
}

#[test]
fn every_mistake_is_named() {
    for (lines, expected) in [
        ("", "on pager: it has no handler"),
        ("handler = \"pigeon\"\n", "line 4: on.handler: must be"),
        ("handler = \"log\"\nchat = \"1\"\n", "chat is not a key of log"),
        ("handler = \"log\"\ncommand = [\"x\"]\n", "command is not a key of log"),
        ("handler = \"log\"\ntexd = \"x\"\n", "line 5: [[on]]: unknown key \"texd\"; did you mean text?"),
        ("handler = \"log\"\ntext = \"(\"\n", "text is not a valid regular expression"),
        ("handler = \"log\"\ntext = \"\\\\w{500}{500}\"\n", "text is not a valid regular expression"),
        ("handler = \"log\"\nfrom = \"A B\"\n", "on pager: from:"),
        ("handler = \"log\"\ntimeout = \"1h\"\n", "line 5: on.timeout"),
        ("handler = \"exec\"\n", "exec needs command"),
        ("handler = \"exec\"\ncommand = [\"x\", \"{subject}\"]\n", "unknown placeholder"),
        ("handler = \"webhook\"\nsecret_env = \"W\"\n", "webhook needs url"),
        ("handler = \"webhook\"\nsecret_env = \"W\"\nurl = \"ftp://x\"\n", "begin with https://"),
        (
            "handler = \"email\"\nserver = \"h\"\nsender = \"a b@c\"\nrecipients = \"x@y\"\n",
            "not an address of the form",
        ),
        (
            "handler = \"email\"\nserver = \"h\"\nsender = \"a@c\"\nrecipients = \"x@y\"\ntls = \"none\"\nuser = \"u\"\n\
             password_env = \"P\"\n",
            "plain text",
        ),
    ] {
        let found = problems(&format!("{PAGER}{lines}"));
        assert!(found.iter().any(|problem| problem.contains(expected)), "{lines}: {found:?}");
    }
    assert!(problems("[[on]]\nname = \"all\"\nhandler = \"log\"\n")[0].contains("has no condition"));
    assert!(problems("[[on]]\ntype = \"alert\"\nhandler = \"log\"\n")[0].contains("no name"));
    let nameless = problems("[[on]]\ntype = \"alert\"\nhandler = \"pigeon\"\n");
    assert!(nameless.iter().any(|problem| problem.contains("no name")) && nameless.len() == 2, "{nameless:?}");
    let twice = format!("{PAGER}handler = \"log\"\n{PAGER}handler = \"log\"\n");
    assert!(problems(&twice)[0].contains("the name is taken"));
    let unknown = "[[on]]\nname = \"x\"\ntype = \"alrt\"\nhandler = \"log\"\n";
    assert!(problems(unknown)[0].contains("there is no type alrt; did you mean alert?"));
    assert!(problems("on = 3\n")[0].contains("write [[on]]"));
}
