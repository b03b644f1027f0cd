use poste_config::{ConfigFile, FilePolicy, LocalFile, commands, read_local};

use super::problems;

#[test]
fn a_command_and_hosts_are_read() {
    let text = "[wake]\ncommand = [\"notify\", \"{agent}\", \"#{number}\"]\nhosts = [\"10.0.0.7\"]\n";
    let (LocalFile { wake, .. }, problems) = read_local(text);
    assert_eq!(problems, []);
    assert_eq!(wake.hosts, ["10.0.0.7"]);
    assert_eq!(wake.command.expect("a command").words, ["notify", "{agent}", "#{number}"]);
}

#[test]
fn a_command_that_comes_with_a_repository_is_one_to_be_trusted() {
    let (file, problems) = ConfigFile::check("[wake]\ncommand = [\"notify\", \"{count}\"]\n");
    assert_eq!(problems, []);
    let found: Vec<(String, usize)> = commands(&file).into_iter().map(|found| (found.key, found.line)).collect();
    assert_eq!(found, [("wake.command".to_owned(), 2)]);
    assert_eq!(file.policy, FilePolicy::default(), "it is not policy");
}

#[test]
fn what_is_wrong_is_named() {
    let wrong = |text: &str| problems(text).into_iter().next().unwrap_or_default();
    assert!(wrong("[wake]\ncomand = []\n").contains("did you mean command?"));
    assert!(wrong("[wake]\ncommand = \"notify\"\n").contains("list of words"));
    assert!(wrong("[wake]\ncommand = [\"notify\", \"{agnt}\"]\n").contains("{agent}"));
    assert!(wrong("[wake]\nhosts = [\"x\"]\n").contains("local.toml"));
    assert!(wrong("wake = 3\n").contains("write [wake]"));
    assert!(wrong("[wak]\n").contains("did you mean wake?"));
}
