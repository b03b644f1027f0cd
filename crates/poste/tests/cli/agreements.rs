//! Agreements: which parties have agreed on a proposal, and what is written to the context.

use crate::assert_transcript;
use crate::common::Desk;

#[test]
fn a_proposal_is_agreed_on_by_everybody_and_written_down() {
    let mut desk = Desk::staffed();
    desk.file("contract.json", "{\"interface\":\"IUserService\",\"methods\":[\"findById\"]}\n");
    desk.play(
        "
        poste context create api --kind api-contracts --as lead
        poste send coder,reviewer 'IUserService' --type interface_contract --payload @contract.json --as lead
        poste agree 2 --list
        poste agree 2 --note 'Fine with me.' --context api --id yes --as coder
        poste agree 2 --note 'Fine with me.' --context api --id yes --as coder
        poste agree 2 --as coder
        poste agree 2 --as lead
        poste agree 2 --as anna
        poste read 3 --as reviewer
        poste inbox --as coder
        poste agree 2 --context nowhere --as reviewer
        poste agree 2 --context api --as reviewer
        poste agree 2 --context api --as reviewer
        poste agree 2 --list --json
        poste context show api
        poste context set api --data '{}' --if-version 2 --as lead
        poste agree 2 --list
        poste track 2
        poste log show --limit 3
        ",
    );
    assert_transcript!(desk);
}

#[test]
fn what_cannot_be_agreed_on_or_written_down_is_told() {
    let mut desk = Desk::staffed();
    desk.file("schema.json", r#"{"additionalProperties":{"required":["methods"]}}"#);
    desk.play(
        "
        poste context create api --schema schema.json --as lead
        poste send coder 'A question' --type question --as lead
        poste agree 2 --as coder
        poste agree 99 --as coder
        poste send coder 'No payload' --type interface_contract --conversation a --as lead
        poste agree 3 --context api --as coder
        poste send coder 'No name' --type interface_contract --payload '{\"methods\":[]}' --conversation b --as lead
        poste agree 5 --context api --as coder
        poste agree 5 --context api --key IUserService --as coder
        poste send coder 'Does not fit' --type interface_contract --payload '{\"name\":\"I\"}' --conversation c --as lead
        poste agree 8 --context api --as coder
        poste send coder 'Newer' --type interface_contract --payload '{\"name\":\"I\",\"methods\":[]}' --conversation c --as lead
        poste agree 8 --as coder
        poste agree 8 --list
        # acknowledged first, agreed on later
        poste reply 10 'I will look.' --done --as coder
        poste agree 10 --context api --as coder
        # one of those who were asked is gone
        poste send coder,reviewer 'Asked of two' --type interface_contract --conversation d --as lead
        poste retire reviewer --as anna
        poste agree 7 --as coder
        poste agree 7 --list
        ",
    );
    assert_transcript!(desk);
}
