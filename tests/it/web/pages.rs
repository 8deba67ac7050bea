//! What the pages show, from nothing to hostile.

use super::*;

const HOSTILE: &str = "\"><script>alert(1)</script><img src=x onerror=alert(1)>";

#[tokio::test]
async fn an_empty_house_says_what_to_do_next() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    for (path, hint) in [
        ("/", "Install the GitHub App"),
        ("/environments", "@treewarden-demo"),
        ("/environments?q=none", "No environment matches"),
        ("/runs", "@treewarden-demo"),
        ("/cleanup", "No pass yet"),
        ("/deliveries", "/webhooks/github"),
        ("/audit", "Nothing has been done yet"),
    ] {
        let page = browser.page(path).await;
        assert!(page.contains(hint), "{path}: {page}");
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        assert!(!page.contains("http-equiv=\"refresh\""), "{path} stands still");
    }
}

#[tokio::test]
async fn the_doctor_says_what_is_wrong_and_what_mends_it() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    assert!(browser.page("/").await.contains("href=\"/doctor\""), "the navigation leads there");
    let page = browser.page("/doctor").await;
    for words in [
        "Below whatever is not right",
        "<strong>home</strong>: /srv/tw is ours alone",
        "git 2.39.5 &#60;b&#62;",
        "<code>x</code> is not there<br><code>apt install x</code>",
        "href=\"https://ghe.example/apps/tw\"",
        "just now",
    ] {
        assert!(page.contains(words), "{words} in {page}");
    }
}

#[tokio::test]
async fn what_is_not_there_is_not_found() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let id = uuid::Uuid::now_v7();
    for path in [format!("/environments/{id}"), format!("/runs/{id}"), "/environments/1".into(), "/runs/%20".into()] {
        assert_eq!(browser.get(&path).await.status(), 404, "{path}");
    }
    assert_eq!(browser.get("/runs?page=many").await.status(), 400);
}

#[tokio::test]
async fn an_environment_shows_its_work_its_thread_and_why_it_is_kept() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 42, "Greet people").await;
    let mut environment = stage.environment(&codebase, 42, "issue-42").await;
    stage.store.set_conversation_environment(conversation.id, Some(environment.id), now()).await.unwrap();
    environment.metadata.kept_because = vec!["still used by `main`".into()];
    environment.pinned = true;
    let environment = stage.store.update_environment(&environment).await.unwrap();
    let run = stage.run(&codebase, &conversation, "add a greeting").await;

    let list = browser.page("/environments").await;
    let thread = format!("href=\"{}/{REPO}/issues/42\"", stage.standin.web_url());
    for part in ["issue-42", &thread, "Greet people", "still used by <code>main</code>", "pinned", "just now"] {
        assert!(list.contains(part), "{part} in {list}");
    }
    let page = browser.page(&format!("/environments/{}", environment.id)).await;
    for part in [
        "git switch issue-42",
        "sudo -u '#",
        "<pre tabindex=\"0\">git -C ",
        "Unpin",
        "Greet people",
        &thread,
        "Conversations that share it",
    ] {
        assert!(page.contains(part), "{part} in {page}");
    }
    let overview = browser.page("/").await;
    assert!(overview.contains("still used by") && overview.contains("add a greeting"));
    assert!(overview.contains("http-equiv=\"refresh\""), "a run waits");
    assert!(!browser.page("/?live=off").await.contains("http-equiv=\"refresh\""), "it can be paused");
    assert!(browser.page(&format!("/runs/{}", run.id)).await.contains("Stop, and keep the work"));
}

#[tokio::test]
async fn a_receipt_that_cannot_be_read_is_said_to_be_there() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    let receipt = Some((Trigger::Schedule, ReceiptDetails { proof: "it was clean".into(), ..Default::default() }));
    stage.store.destroy_environment(&environment, receipt, now()).await.unwrap();
    let page = format!("/environments/{}", environment.id);
    assert!(browser.page(&page).await.contains("it was clean"));
    let database = stage.dir.path().join("home/treewarden.db");
    let elsewhere = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    sqlx::query("UPDATE receipts SET details = '\"x\"'").execute(&elsewhere).await.unwrap();
    let told = browser.page(&page).await;
    assert!(told.contains("a receipt that cannot be shown: ") && told.contains("column details"), "{told}");
}

#[tokio::test]
async fn what_a_repository_asks_for_is_shown_and_why_its_file_is_broken() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    assert!(!browser.page("/").await.contains("Settings of its own"), "it has no file");
    let mut known = KnownSettings { file: BlobId::new(&"a".repeat(40)).ok(), ..KnownSettings::default() };
    known.in_force.max_worktrees = Some(3);
    known.in_force.pull_request = PullRequestMode::Link;
    stage.store.save_repo_settings(codebase.id, &known, now()).await.unwrap();
    let page = browser.page("/").await;
    for part in ["Settings of its own", "0 of 3 worktrees", "<code>pull_request</code> link"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    known.in_force.max_worktrees = Some(3_000);
    known.problem = Some(SettingsProblem { at: Some((2, 1)), what: format!("there is no setting `{HOSTILE}`") });
    stage.store.save_repo_settings(codebase.id, &known, now()).await.unwrap();
    let page = browser.page("/").await;
    for part in ["0 of 25 worktrees", "its settings file is broken", "line 2, column 1: there is no setting"] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("<script>"), "{page}");
}

#[tokio::test]
async fn reasons_that_settle_themselves_need_nobody() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let mut environment = stage.environment(&codebase, 1, "issue-1").await;
    environment.metadata.kept_because = vec!["work goes on: it is neither merged nor stale".into()];
    let mut environment = stage.store.update_environment(&environment).await.unwrap();
    assert!(browser.page("/").await.contains("No worktree waits for a decision"));
    environment.metadata.kept_because.push("it could not be checked: no network".into());
    stage.store.update_environment(&environment).await.unwrap();
    assert!(browser.page("/").await.contains("no network"));
}

#[tokio::test]
async fn lists_come_in_pages_and_the_address_keeps_what_was_chosen() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let (here, there) = (stage.codebase(REPO, 11).await, stage.codebase("octo/other", 12).await);
    for number in 1..=51 {
        stage.environment(&here, number, &format!("issue-{number}")).await;
    }
    stage.environment(&there, 1, "issue-1").await;
    let first = browser.page("/environments?q=issue&codebase=octo%2Fhello").await;
    assert_eq!(first.matches("<tr>").count(), 51, "50 rows and the head");
    let older = "?q=issue&#38;codebase=octo%2Fhello&#38;page=2";
    assert!(first.contains(older), "{first}");
    let second = browser.page("/environments?q=issue&codebase=octo%2Fhello&page=2").await;
    assert!(second.contains(">issue-1</a>") && second.contains("page=1") && !second.contains("page=3"));
    let search = browser.page("/environments?q=ISSUE-7").await;
    assert!(search.contains(">issue-7</a>") && !search.contains(">issue-8</a>"));
    assert!(search.contains("value=\"ISSUE-7\""));
    assert!(browser.page("/environments?codebase=octo/nothing").await.contains("No environment matches"));
}

#[tokio::test]
async fn the_runs_of_an_environment_come_in_pages() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 1, "x").await;
    let environment = stage.environment(&codebase, 1, "issue-1").await;
    for number in 1..=51 {
        stage.run(&codebase, &conversation, &format!("request {number}.")).await;
    }
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let elsewhere = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    let bind = sqlx::query("UPDATE runs SET environment_id = ?").bind(environment.id.to_string());
    bind.execute(&elsewhere).await.unwrap();
    let path = format!("/environments/{}", environment.id);
    let first = browser.page(&path).await;
    assert_eq!(first.matches("href=\"/runs/").count(), 50);
    assert!(first.contains("request 51.") && !first.contains("request 1.") && first.contains("\"?page=2\""), "{first}");
    assert!(first.contains("http-equiv=\"refresh\""), "runs wait");
    let second = browser.page(&format!("{path}?page=2")).await;
    assert_eq!(second.matches("href=\"/runs/").count(), 1);
    assert!(second.contains("request 1.") && second.contains("\"?page=1\"") && !second.contains("page=3"), "{second}");
    assert!(!second.contains("http-equiv=\"refresh\""), "old pages stand still");
}

#[tokio::test]
async fn behind_the_last_page_there_is_a_way_back() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    for path in ["/environments", "/runs", "/deliveries"] {
        let page = browser.page(&format!("{path}?page=3")).await;
        assert!(page.contains("\"?page=2\"") && !page.contains("class=\"empty\""), "{path}: {page}");
    }
}

#[tokio::test]
async fn a_long_pass_shows_first_what_it_did() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 1, "issue-1").await.id;
    let line = |branch: String, result| {
        let repository = (branch != "gone").then(|| REPO.to_owned());
        let environment = Some(environment);
        ReportLine {
            environment,
            repository,
            branch,
            result,
            bytes_freed: Some(1_200_000),
            bytes_reclaimed: 0,
            notes: Vec::new(),
        }
    };
    let mut lines: Vec<ReportLine> =
        (1..=60).map(|number| line(format!("kept-{number}"), ReportResult::Kept(vec!["pinned".into()]))).collect();
    lines.push(line("gone".into(), ReportResult::Removed("merged".into())));
    lines.push(line("stuck".into(), ReportResult::Failed("no network".into())));
    let report = CleanupReport {
        id: ReportId::from(uuid::Uuid::now_v7()),
        trigger: Trigger::Schedule,
        dry_run: false,
        lines,
        started_at: now().minus(Duration::from_secs(65)),
        ended_at: now(),
    };
    stage.store.insert_report(&report).await.unwrap();
    let page = browser.page("/cleanup").await;
    let sum = "1 removed, 60 kept, 1 failed, in 1 min 5 s; 74.4 MB freed";
    for part in [sum, "; 1.2 MB freed", ">gone</a>", ">octo/hello#stuck</a>", "#kept-48</a>", "and 12 more."] {
        assert!(page.contains(part), "{part} in {page}");
    }
    assert!(!page.contains("kept-49</a>"));
}

#[tokio::test]
async fn hostile_names_and_texts_stay_text() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 1, HOSTILE).await;
    let mut environment = stage.environment(&codebase, 1, "a<script>alert(1)</script>;$(id)").await;
    environment.metadata.kept_because = vec![format!("`{HOSTILE}` {HOSTILE}")];
    let environment = stage.store.update_environment(&environment).await.unwrap();
    stage.store.set_conversation_environment(conversation.id, Some(environment.id), now()).await.unwrap();
    let run = stage.run(&codebase, &conversation, HOSTILE).await;
    let claimed = stage.store.claim_run("test", now(), Duration::from_secs(60), 4).await.unwrap().unwrap();
    let done = Run {
        environment: Some(environment.id),
        state: RunState::Failed,
        reason: Some(HOSTILE.to_owned()),
        opening: Some(HOSTILE.to_owned()),
        answer: Some(HOSTILE.to_owned()),
        ended_at: Some(now()),
        ..claimed
    };
    assert!(stage.store.update_run(&done, "test").await.unwrap());
    let log = stage.orchestrator.log_path(run.id);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, format!("\u{1b}[31m{HOSTILE}\u{1b}[0m\n\u{202e}done")).unwrap();
    stage.delivery("<u>guid</u>", "<u>event</u>", br#"{"repository":{"id":11}}"#).send().await.unwrap();
    stage.store.append_audit(HOSTILE, HOSTILE, HOSTILE, HOSTILE, now()).await.unwrap();

    let paths = [format!("/environments/{}", environment.id), format!("/runs/{}", run.id)];
    let lists = ["/", "/environments", "/environments?q=%22%3E%3Cscript%3E&all=true", "/runs", "/deliveries", "/audit"];
    for path in paths.iter().map(String::as_str).chain(lists) {
        let page = browser.page(path).await;
        for tag in ["<script", "<img src=x", "<u>", "javascript:"] {
            assert!(!page.contains(tag), "{tag} on {path}: {page}");
        }
    }
    let page = browser.page(&paths[0]).await;
    assert!(
        page.contains("git switch &#39;a&#60;script&#62;alert(1)&#60;/script&#62;;$(id)&#39;"),
        "quoted for a shell"
    );
    let page = browser.page(&paths[1]).await;
    assert!(!page.contains('\u{1b}') && !page.contains('\u{202e}') && page.contains("\ndone"));
}

#[tokio::test]
async fn a_long_log_shows_its_end() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 1, "x").await;
    let run = stage.run(&codebase, &conversation, "go").await;
    let path = format!("/runs/{}", run.id);
    assert!(browser.page(&path).await.contains("has not written anything yet"));
    let log = stage.orchestrator.log_path(run.id);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, format!("first line\n{}last line\n", "ä line\n".repeat(20_000))).unwrap();
    let page = browser.page(&path).await;
    assert!(page.contains("last line") && !page.contains("first line") && page.contains("The end of a longer log."));
}

#[tokio::test]
async fn deliveries_name_the_thread_and_the_outcome() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    stage.codebase(REPO, 11).await;
    let body = br#"{"action":"reopened","repository":{"id":11,"full_name":"octo/hello"},"installation":{"id":3},
        "issue":{"number":5}}"#;
    stage.delivery("g-1", "issues", body).send().await.unwrap();
    stage.delivery("g-2", "star", b"{}").send().await.unwrap();
    let page = browser.page("/deliveries").await;
    let run = RunId(uuid::Uuid::now_v7());
    let delivery =
        stage.store.claim_delivery("test", now(), std::time::Duration::from_secs(60)).await.unwrap().unwrap();
    let end = DeliveryEnd::Done(format!("run {run}"));
    stage.store.finish_delivery(&delivery, end, now()).await.unwrap();
    let after = browser.page("/deliveries").await;
    assert!(after.contains(&format!("<a href=\"/runs/{run}\">run {run}</a>")), "{after}");
    for part in ["octo/hello#5", "received", "waits its turn", "ignored", "does not act on the event", "no repository"]
    {
        assert!(page.contains(part), "{part} in {page}");
    }
}

#[tokio::test]
async fn what_was_given_up_needs_a_person_however_long_ago_it_was_overtaken() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 42, "Greet people").await;
    let run = stage.run(&codebase, &conversation, "add a greeting").await;
    assert!(browser.page("/").await.contains("no delivery or comment of the last 30 days was given up"));
    let delivery = stage.store.claim_delivery("test", now(), Duration::from_secs(60)).await.unwrap().unwrap();
    let end = DeliveryEnd::Failed("git failed; see `log`.".to_owned());
    stage.store.finish_delivery(&delivery, end, now()).await.unwrap();
    let key = format!("status/{}", run.id);
    let outgoing = Outgoing::Comment { number: ThreadNumber(42), body: "x".to_owned(), marker: "x".to_owned() };
    let wish = NewOutgoing {
        key,
        codebase: codebase.id,
        conversation: Some(conversation.id),
        turn: Turn::Result,
        outgoing,
        not_before: now(),
    };
    stage.store.enqueue(wish, now()).await.unwrap();
    let minute = Duration::from_secs(60);
    let sender = Sender { owner: "test", lane: Lane::Content, lease: minute, apart: Duration::ZERO };
    let row = stage.store.claim_outgoing(&sender, now()).await.unwrap().unwrap();
    let end = OutgoingEnd::Retry { error: "502".to_owned(), at: now() };
    stage.store.finish_outgoing(&row, "test", end, now()).await.unwrap();
    let page = browser.page(&format!("/runs/{}", run.id)).await;
    assert!(page.contains("The comment is not written yet and is tried again: 502."), "{page}");
    let row = stage.store.claim_outgoing(&sender, now()).await.unwrap().unwrap();
    let end = OutgoingEnd::Failed("body is too long".to_owned());
    stage.store.finish_outgoing(&row, "test", end, now()).await.unwrap();
    for _ in 0..60 {
        stage.run(&codebase, &conversation, "another one").await;
    }

    let overview = browser.page("/").await;
    for part in ["git failed; see <code>log</code>. <a", "redeliver it", "could not be written: body is too long. "] {
        assert!(overview.contains(part), "{part} in {overview}");
    }
    assert!(!overview.contains("Nothing. No worktree") && overview.contains(&format!("/runs/{}", run.id)));
    let page = browser.page(&format!("/runs/{}", run.id)).await;
    assert!(page.contains("The comment could not be written") && page.contains("body is too long"), "{page}");
}

#[tokio::test]
async fn trouble_with_the_database_needs_a_person() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    assert!(!browser.page("/").await.contains("Deliveries cannot be stored"));
    let database = stage.dir.path().canonicalize().unwrap().join("home/treewarden.db");
    let elsewhere = sqlx::SqlitePool::connect(&format!("sqlite://{}", database.display())).await.unwrap();
    let full = "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(FAIL, 'the disk is full'); END";
    sqlx::query(full).execute(&elsewhere).await.unwrap();
    assert_eq!(stage.delivery("g1", "ping", b"{}").send().await.unwrap().status(), 503);
    let overview = browser.page("/").await;
    assert!(
        overview.contains("Deliveries cannot be stored") && !overview.contains("Nothing. No worktree"),
        "{overview}"
    );
    stage.workers_healthy.store(false, Ordering::Relaxed);
    assert!(browser.page("/").await.contains("The workers do not get through"));
}

#[tokio::test]
async fn worktrees_are_counted_while_nobody_waits() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    stage.environment(&codebase, 1, "issue-1").await;
    let page = browser.page("/").await;
    assert!(page.contains("1 of 25 worktrees; being counted") && page.contains("http-equiv=\"refresh\""), "{page}");
    while stage.orchestrator.last_census(&codebase, 1).is_none() {
        tokio::task::yield_now().await;
    }
    let page = browser.page("/").await;
    assert!(page.contains("1 active; counted <time") && !page.contains("http-equiv=\"refresh\""), "{page}");
    stage.environment(&codebase, 2, "issue-2").await;
    let page = browser.page("/").await;
    assert!(page.contains("2 of 25 worktrees; being counted"), "an older count is not shown beside it: {page}");
}

#[tokio::test]
async fn a_log_shows_no_secret_that_control_sequences_split_and_no_text_is_turned_around() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 42, "Greet\u{202e}people").await;
    let run = stage.run(&codebase, &conversation, "add\u{2066} a greeting").await;
    let log = stage.orchestrator.log_path(run.id);
    std::fs::create_dir_all(log.parent().unwrap()).unwrap();
    std::fs::write(&log, "token ghs_01234\u{1b}[0m56789abcdef and ghs_ab\u{200e}cd3fghijklmn end\n").unwrap();
    let page = browser.page(&format!("/runs/{}", run.id)).await;
    assert!(page.contains("token [redacted] and [redacted] end"), "{page}");
    for page in [page, browser.page("/").await, browser.page("/runs").await] {
        assert!(page.contains("Greetpeople") && page.contains("add a greeting"), "{page}");
        assert!(!page.contains(['\u{202e}', '\u{2066}']));
    }
}

#[tokio::test]
async fn an_environment_names_the_threads_of_platforms_nobody_speaks_to() {
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let environment = stage.environment(&codebase, 42, "issue-42").await;
    let row = OldName { table: OldTable::Conversations, id: "1".to_owned(), about: String::new() };
    let thread = ThreadImport::Held {
        platform: PlatformKind::Telegram,
        thread: HOSTILE.to_owned(),
        repository: codebase.github_id(),
    };
    let place = PlaceImport::Environment(environment.path.clone());
    let (created_at, last_activity_at) = (now(), now());
    let conversation = ConversationImport { row: row.clone(), thread, place, created_at, last_activity_at };
    let there = EnvironmentImport {
        row: OldName { table: OldTable::IsolationEnvironments, ..row },
        repository: codebase.github_id().unwrap(),
        work: environment.work.clone(),
        branch: environment.branch.clone(),
        path: environment.path.clone(),
        metadata: environment.metadata.clone(),
        created_at,
        last_activity_at,
    };
    let plan = ImportPlan { conversations: vec![conversation], environments: vec![there], ..ImportPlan::default() };
    stage.store.import(&plan, true, now()).await.unwrap();
    let page = browser.page(&format!("/environments/{}", environment.id)).await;
    assert!(page.contains("<li>Telegram &#34;&#62;&#60;script"), "{page}");
    assert!(page.contains("this version does not speak there") && !page.contains("<script>alert"), "{page}");
}

/// Texts of git and agents, wherever they stand on a page: without secrets, and not turned around.
#[tokio::test]
async fn no_page_shows_a_secret_or_a_name_that_is_turned_around() {
    const SECRET: &str = "ghs_0123456789abcdef";
    let stage = Stage::new().await;
    let browser = stage.sign_in().await;
    let codebase = stage.codebase(REPO, 11).await;
    let conversation = stage.conversation(&codebase, 1, &format!("Title {SECRET}")).await;
    let told = || format!("git said {SECRET}");
    let turned = "work\u{202e}gnp";
    let mut environment = stage.environment(&codebase, 1, turned).await;
    environment.metadata.kept_because = vec![told()];
    let environment = stage.store.update_environment(&environment).await.unwrap();
    let run = stage.run(&codebase, &conversation, "go").await;
    let delivery = stage.store.claim_delivery("test", now(), Duration::from_secs(60)).await.unwrap().unwrap();
    stage.store.finish_delivery(&delivery, DeliveryEnd::Failed(told()), now()).await.unwrap();
    let claimed = stage.store.claim_run("test", now(), Duration::from_secs(60), 4).await.unwrap().unwrap();
    let done = Run {
        state: RunState::Failed,
        opening: Some(told()),
        reason: Some(told()),
        answer: Some(told()),
        outcome: RunOutcome { not_pushed_because: Some(told()), ..claimed.outcome.clone() },
        ended_at: Some(now()),
        ..claimed
    };
    assert!(stage.store.update_run(&done, "test").await.unwrap());
    let (repository, result) = (Some(turned.to_owned()), ReportResult::Kept(vec![told()]));
    let (environment_id, branch, notes) = (Some(environment.id), turned.to_owned(), Vec::new());
    let line = ReportLine {
        environment: environment_id,
        repository,
        branch,
        result,
        bytes_freed: None,
        bytes_reclaimed: 0,
        notes,
    };
    let report = CleanupReport {
        id: ReportId::from(uuid::Uuid::now_v7()),
        trigger: Trigger::Schedule,
        dry_run: false,
        lines: vec![line],
        started_at: now(),
        ended_at: now(),
    };
    stage.store.insert_report(&report).await.unwrap();
    let subject = format!("{REPO}#{turned}");
    stage.store.append_audit("ann", "environment.kept", &subject, &told(), now()).await.unwrap();

    let page = format!("/environments/{}", environment.id);
    browser.press(&format!("{page}/pin"), &[]).await;
    let flash = browser.page(&page).await;
    assert!(flash.contains("workgnp") && !flash.contains('\u{202e}'), "{flash}");
    for path in
        ["/", "/environments", &page, "/runs", &format!("/runs/{}", run.id), "/deliveries", "/cleanup", "/audit"]
    {
        let page = browser.page(path).await;
        assert!(page.contains("[redacted]") || path == "/environments", "{path}: {page}");
        assert!(!page.contains("0123456789abcdef") && !page.contains('\u{202e}'), "{path}: {page}");
    }
}
