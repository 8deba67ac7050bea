//! Tests of `payload`: what GitHub sends, in its own shapes, and what is no delivery.

use super::*;
use serde_json::{Value, json};

fn base(action: &str) -> Value {
    json!({
        "action": action,
        "installation": {"id": 3},
        "repository": {"id": 1, "full_name": "acme/app", "default_branch": "trunk", "owner": {"login": "acme"}},
        "sender": {"id": 5, "login": "ann", "type": "User"},
    })
}

fn with(action: &str, extra: Value) -> Value {
    let mut body = base(action);
    for (key, value) in extra.as_object().unwrap() {
        body[key] = value.clone();
    }
    body
}

fn event(name: &str, body: &Value) -> Event {
    understand(name, body.to_string().as_bytes()).unwrap()
}

fn comment() -> Value {
    json!({"id": 11, "body": "@bot fix", "user": {"id": 5, "login": "ann", "type": "User"}, "created_at": "2026-01-01T00:00:00Z"})
}

#[test]
fn a_comment_on_an_issue_and_on_a_pull_request() {
    let issue = with("created", json!({"issue": {"number": 7, "title": "T"}, "comment": comment()}));
    let Event::Written(message) = event("issue_comment", &issue) else { panic!() };
    assert_eq!((message.thread.kind, message.thread.number.0), (ThreadKind::Issue, 7));
    assert_eq!(message.source, MessageSource::IssueComment { id: CommentId(11) });
    assert_eq!(message.thread.repository.default_branch.unwrap().as_str(), "trunk");

    let pull = with("created", json!({"issue": {"number": 7, "pull_request": {"url": "x"}}, "comment": comment()}));
    let Event::Written(message) = event("issue_comment", &pull) else { panic!() };
    assert_eq!(message.thread.kind, ThreadKind::PullRequest);
}

#[test]
fn a_review_comment_brings_its_place() {
    let mut comment = comment();
    comment["path"] = json!("src/a.rs");
    comment["line"] = Value::Null;
    comment["original_line"] = json!(4);
    comment["diff_hunk"] = json!("@@");
    comment["pull_request_review_id"] = json!(9);
    let body = with("created", json!({"pull_request": {"number": 7}, "comment": comment}));
    let Event::Written(message) = event("pull_request_review_comment", &body) else { panic!() };
    assert_eq!(
        message.source,
        MessageSource::ReviewComment {
            id: CommentId(11),
            review: Some(CommentId(9)),
            path: "src/a.rs".into(),
            line: Some(4),
            diff_hunk: "@@".into()
        }
    );
}

#[test]
fn closing_tells_merged_from_closed() {
    let sha = "b".repeat(40);
    let pull = |merged: bool| {
        with("closed", json!({"pull_request": {"number": 9, "merged": merged, "head": {"sha": sha, "repo": null}}}))
    };
    let Event::Closed { merged_head, .. } = event("pull_request", &pull(true)) else { panic!() };
    assert_eq!(merged_head.unwrap().as_str(), sha);
    let Event::Closed { merged_head, .. } = event("pull_request", &pull(false)) else { panic!() };
    assert_eq!(merged_head, None);
    let Event::Closed { thread, .. } = event("issues", &with("closed", json!({"issue": {"number": 5}}))) else {
        panic!()
    };
    assert_eq!(thread.kind, ThreadKind::Issue);
}

#[test]
fn edits_bring_the_text_before() {
    let changes = json!({"issue": {"number": 7}, "comment": comment(), "changes": {"body": {"from": "fix"}}});
    let Event::Edited { previous, editor, .. } = event("issue_comment", &with("edited", changes)) else { panic!() };
    assert_eq!((previous.as_deref(), editor.id), (Some("fix"), UserId(5)));
}

#[test]
fn edits_of_anything_but_the_text_bring_nothing() {
    for changes in
        [json!({}), json!({"title": {"from": "old"}}), json!({"base": {"ref": {"from": "dev"}}}), Value::Null]
    {
        let issue = json!({"number": 7, "body": "@bot fix", "user": {"id": 5, "login": "ann"}});
        let body = with("edited", json!({"issue": issue, "changes": changes}));
        assert!(matches!(event("issues", &body), Event::Nothing(_)), "{changes}");
    }
    let filled = json!({"issue": {"number": 7}, "comment": comment(), "changes": {"body": {"from": null}}});
    let Event::Edited { previous, .. } = event("issue_comment", &with("edited", filled)) else { panic!() };
    assert_eq!(previous.as_deref(), Some(""));
}

#[test]
fn a_review_and_its_comments_name_the_same_review() {
    let mut review = comment();
    review["id"] = json!(9);
    review["submitted_at"] = json!("2026-01-02T00:00:00Z");
    let body = with("submitted", json!({"pull_request": {"number": 7}, "review": review}));
    let Event::Written(message) = event("pull_request_review", &body) else { panic!() };
    assert_eq!(message.source, MessageSource::Review { id: CommentId(9) });
    assert_eq!(message.thread.kind, ThreadKind::PullRequest);
    let dismissed = with("dismissed", json!({"pull_request": {"number": 7}, "review": {"id": 9}}));
    assert!(matches!(event("pull_request_review", &dismissed), Event::Nothing(_)));
}

#[test]
fn a_body_sent_as_another_event_counts_for_nothing() {
    let issue = with("opened", json!({"issue": {"number": 7, "user": {"id": 5, "login": "ann"}}}));
    let on_issue = with("created", json!({"issue": {"number": 7}, "comment": comment()}));
    let pull = with("opened", json!({"pull_request": {"number": 7, "user": {"id": 5, "login": "ann"}}}));
    let review = with("submitted", json!({"pull_request": {"number": 7}, "review": comment()}));
    let on_pull = with("created", json!({"pull_request": {"number": 7}, "comment": comment()}));
    let pressed = pressed("requested_action", "retry");
    let bodies = [
        ("issues", &issue),
        ("issue_comment", &on_issue),
        ("pull_request", &pull),
        ("pull_request_review", &review),
        ("pull_request_review_comment", &on_pull),
        ("repository", &base("renamed")),
        ("check_run", &pressed),
    ];
    for (sent_as, _) in bodies {
        for (is, body) in bodies {
            assert_eq!(matches!(event(sent_as, body), Event::Nothing(_)), sent_as != is, "{is} sent as {sent_as}");
        }
    }
}

fn pressed(action: &str, identifier: &str) -> Value {
    let check = json!({"id": 4, "external_id": uuid::Uuid::nil(), "app": {"id": 7}, "head_sha": "a"});
    with(action, json!({"check_run": check, "requested_action": {"identifier": identifier}}))
}

#[test]
fn a_press_names_the_run_and_the_button() {
    let button = |action: &str, identifier: &str| match event("check_run", &pressed(action, identifier)) {
        Event::Pressed(press) => {
            assert_eq!((press.app, press.run, press.by.login.as_str()), (7, RunId(uuid::Uuid::nil()), "ann"));
            Some(press.button)
        }
        _ => None,
    };
    for known in Button::ALL {
        assert_eq!(button("requested_action", known.as_str()), Some(*known));
    }
    assert_eq!(button("rerequested", "lgtm"), Some(Button::Retry), "GitHub's own button");
    assert_eq!(button("requested_action", "lgtm"), None);
    assert_eq!(button("completed", "retry"), None);
    let is_pressed = |action: &str| {
        let body = pressed(action, "stop").to_string();
        Payload::read(body.as_bytes()).unwrap().is_pressed("check_run")
    };
    assert_eq!(["created", "completed", "requested_action", "rerequested"].map(is_pressed), [false, false, true, true]);
}

#[test]
fn who_closed_it_does_not_matter() {
    for sender in [Value::Null, json!({"id": null}), json!({"login": "ghost"})] {
        let mut body = with("closed", json!({"issue": {"number": 5}}));
        body["sender"] = sender;
        let Event::Closed { by, .. } = event("issues", &body) else { panic!() };
        assert_eq!((by.id, by.login.as_str()), (UserId(0), "ghost"));
    }
}

#[test]
fn a_pull_request_whose_fork_is_gone_is_understood() {
    let pull = json!({"number": 7, "user": null, "body": "@bot", "head": {"ref": "patch-1", "sha": "a", "repo": null, "user": null}});
    assert!(matches!(event("pull_request", &with("opened", json!({"pull_request": pull}))), Event::Nothing(_)));
    let closed = with("closed", json!({"pull_request": {"number": 7, "merged": true, "head": null}}));
    assert!(matches!(event("pull_request", &closed), Event::Closed { merged_head: None, .. }));
    let moved =
        with("synchronize", json!({"pull_request": {"number": 7, "head": {"sha": "c".repeat(40), "repo": null}}}));
    assert!(matches!(event("pull_request", &moved), Event::HeadMoved { before: None, .. }));
    let mut moved = moved;
    moved["before"] = json!("b".repeat(40));
    let before = CommitSha::new(&"b".repeat(40)).ok();
    assert!(matches!(event("pull_request", &moved), Event::HeadMoved { before: known, .. } if known == before));
}

#[test]
fn a_transferred_issue_starts_nothing_in_either_place() {
    let changes = json!({"new_issue": {"number": 77}, "new_repository": {"id": 2, "full_name": "acme/other"}});
    let left = with("transferred", json!({"issue": {"number": 5}, "changes": changes}));
    let to = |body: &Value| match event("issues", body) {
        Event::Transferred { thread, to, .. } => (thread.number.0, to),
        other => panic!("{other:?}"),
    };
    assert_eq!(to(&left), (5, Some("acme/other#77".to_owned())));
    for changes in
        [json!(null), json!({}), json!({"new_issue": {"number": 77}, "new_repository": {"full_name": "`x`"}})]
    {
        assert_eq!(to(&with("transferred", json!({"issue": {"number": 5}, "changes": changes}))), (5, None));
    }
    let issue = json!({"number": 77, "body": "@bot fix", "user": {"id": 5, "login": "ann"}});
    let arrived = with("opened", json!({"issue": issue, "changes": {"old_issue": {"number": 5}}}));
    assert!(matches!(event("issues", &arrived), Event::Nothing(_)));
}

#[test]
fn a_repository_keeps_its_id_through_renames_and_is_withdrawn_when_deleted() {
    let mut body = base("renamed");
    body["repository"]["full_name"] = json!("acme/app2");
    body["changes"] = json!({"repository": {"name": {"from": "app"}}});
    let Event::Renamed { repository } = event("repository", &body) else { panic!() };
    assert_eq!((repository.id, repository.name.to_string()), (RepositoryId(1), "acme/app2".to_owned()));
    for (action, told) in [("deleted", Fate::Deleted), ("archived", Fate::Archived), ("unarchived", Fate::Unarchived)] {
        let Event::Installation { access: Access::Repository { id, fate }, .. } = event("repository", &base(action))
        else {
            panic!("{action}")
        };
        assert_eq!((id, fate), (RepositoryId(1), told));
    }
    for (action, said) in
        [("suspend", Access::Suspended), ("deleted", Access::Uninstalled), ("unsuspend", Access::Granted)]
    {
        let body = json!({"action": action, "installation": {"id": 3}, "sender": {"id": 5, "login": "ann"}});
        let Event::Installation { access, .. } = event("installation", &body) else { panic!("{action}") };
        assert_eq!(access, said);
    }
}

#[test]
fn repositories_come_and_go() {
    let body = json!({
        "action": "removed",
        "installation": {"id": 3},
        "repositories_removed": [{"id": 1, "full_name": "acme/app"}, {"id": null}],
        "repositories_added": null,
    });
    let again =
        json!({"action": "created", "installation": {"id": 9}, "repositories": [{"id": 1, "full_name": "acme/app"}]});
    let Event::Installation { installation: InstallationId(9), access: Access::Repositories { added, .. } } =
        event("installation", &again)
    else {
        panic!("an App that is installed anew")
    };
    assert_eq!(added.len(), 1);
    let Event::Installation { access: Access::Repositories { added, removed }, .. } =
        event("installation_repositories", &body)
    else {
        panic!()
    };
    assert!(added.is_empty());
    assert_eq!(removed, vec![(RepositoryId(1), "acme/app".parse().unwrap())]);
}

/// BR-152
#[test]
fn nulls_and_unknown_things_never_fail_a_delivery() {
    let full = with("created", json!({"issue": {"number": 7, "title": "T"}, "comment": comment()}));
    for pointer in [
        "/issue",
        "/comment",
        "/sender",
        "/repository",
        "/installation",
        "/comment/user",
        "/comment/body",
        "/issue/title",
        "/action",
    ] {
        for value in [Value::Null, json!("text"), json!(5), json!([]), json!({})] {
            let mut body = full.clone();
            *body.pointer_mut(pointer).unwrap() = value;
            for name in [
                "issue_comment",
                "issues",
                "pull_request",
                "pull_request_review",
                "installation",
                "repository",
                "nonsense",
            ] {
                let _ = event(name, &body);
            }
        }
    }
    let mut ghost = full.clone();
    ghost["comment"]["user"] = Value::Null;
    assert!(matches!(event("issue_comment", &ghost), Event::Nothing(_)));
    assert!(matches!(event("milestone", &full), Event::Nothing(_)));
    assert!(matches!(
        event("issue_comment", &with("pinned", json!({"issue": {"number": 1}, "comment": comment()}))),
        Event::Nothing(_)
    ));
}

/// Headers are not signed: a body that was caught on its way may come again as another event.
#[test]
fn what_is_said_of_a_repository_counts_for_no_installation_nor_the_other_way_round() {
    let installation = json!({"action": "deleted", "installation": {"id": 3}, "repositories": [{"id": 1}]});
    let mut lists = json!({"action": "deleted", "installation": {"id": 3}});
    lists["repositories_added"] = json!([]);
    lists["repositories_removed"] = json!([{"id": 1, "full_name": "acme/app"}]);
    let bodies =
        [("repository", base("deleted")), ("installation", installation), ("installation_repositories", lists)];
    for (name, body) in &bodies {
        for (sent_as, _) in &bodies {
            let understood = !matches!(event(sent_as, body), Event::Nothing(_));
            assert_eq!(understood, name == sent_as, "{name} as {sent_as}");
        }
    }
}

#[test]
fn of_a_list_those_count_that_say_which_they_are() {
    let rows =
        json!([{"id": 1}, 5, null, {}, {"id": 2, "full_name": "acme/two"}, {"id": "3", "full_name": "acme/three"}]);
    let lists = json!({"action": "added", "installation": {"id": 3}, "repositories_added": rows});
    let Event::Installation { access: Access::Repositories { added, .. }, .. } =
        event("installation_repositories", &lists)
    else {
        panic!()
    };
    assert_eq!(added, [(RepositoryId(2), "acme/two".parse().unwrap())]);
}

#[test]
fn what_is_not_json_is_refused() {
    for body in [&b""[..], b"[]", b" [\"created\", null]", b"5", b"{\"a\":", b"payload=%7B%7D", b"\xff"] {
        assert!(Payload::read(body).is_err());
        assert!(understand("issues", body).is_err());
    }
}

#[test]
fn a_reason_is_as_long_as_a_person_reads() {
    let Event::Nothing(reason) = event("issues", &with(&"x".repeat(3_000_000), json!({"issue": {"number": 7}}))) else {
        panic!()
    };
    assert!(reason.len() < 200 && reason.ends_with("nothing to do for this action"), "{}", reason.len());
}

#[test]
fn deliveries_of_one_thread_share_a_key() {
    let key = |body: &Value| Payload::read(body.to_string().as_bytes()).unwrap().conversation_key();
    let issue = with("created", json!({"issue": {"number": 7}, "comment": comment()}));
    let pull = with("created", json!({"pull_request": {"number": 7}}));
    assert_eq!(key(&issue).as_deref(), Some("1#7"));
    assert_eq!(key(&pull), key(&issue));
    assert_eq!(key(&base("renamed")).as_deref(), Some("1"));
    assert_eq!(key(&json!({"installation": {"id": 3}})).as_deref(), Some("installation 3"));
    assert_eq!(key(&json!({"zen": "x"})), None);
}

#[test]
fn the_manifest_asks_for_every_event_that_is_understood_and_says_why() {
    let manifest = include_str!("../../../app-manifest.yml");
    let lines: Vec<&str> = manifest.lines().filter_map(|line| line.trim().strip_prefix("- ")).collect();
    assert!(lines.iter().all(|line| line.split_once('#').is_some_and(|(_, why)| !why.trim().is_empty())), "{lines:?}");
    let listed: Vec<&str> = lines.iter().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(listed, ASKED_FOR);
}
