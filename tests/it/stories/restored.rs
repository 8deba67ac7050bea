//! Whatever is in a worktree when it goes, and however it goes, it comes back as it was.

use crate::git_keepsake::{as_kept, carry_out, content, deeds, ignored_deeds, state};
use crate::support::world::{ANN, World, git};
use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, TestRunner},
};
use std::{fs, os::unix::fs::symlink};
use treewarden::{model::*, orchestrator::restore::Restored, orchestrator::sweep::Swept};

const ROUNDS: usize = 18;

#[tokio::test]
async fn what_goes_comes_back_as_it_was() {
    let world = World::new().await;
    world.worked_issue("add a greeting").await;
    let path = world.environment().await.path;
    fs::create_dir(path.join("d")).unwrap();
    for (name, text) in [("f", "1\n"), ("d/one", "one\n"), ("d/two", "two\n"), ("eol.txt", "a\nb\n")] {
        fs::write(path.join(name), text).unwrap();
    }
    fs::write(path.join(".gitignore"), ".env\ntarget/\nlogs/\n").unwrap();
    symlink("f", path.join("link")).unwrap();
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", "Mine"]);
    let orchestrator = world.orchestrator();
    let mut runner = TestRunner::new(Config::default());
    let (mut by_itself, mut by_force) = (0, 0);
    for round in 0..ROUNDS {
        git(&path, &["reset", "-q", "--hard"]);
        git(&path, &["clean", "-q", "-f", "-d", "-x"]);
        let fresh = content(&path);
        let deeds = match round % 3 {
            0 => ignored_deeds().new_tree(&mut runner).unwrap().current(),
            _ => deeds().new_tree(&mut runner).unwrap().current(),
        };
        for deed in &deeds {
            carry_out(&path, deed);
        }
        let (files, said) = (content(&path), state(&path));
        let id = world.environment().await.id;
        let gone = match round % 2 {
            0 => matches!(orchestrator.remove(id, Trigger::Command, ANN).await.unwrap(), Swept::Removed(_)),
            _ => {
                world.days_pass(15);
                matches!(world.pass().await.lines.remove(0).result, ReportResult::Removed(_))
            }
        };
        if !gone {
            assert_eq!((content(&path), state(&path)), (files.clone(), said.clone()), "kept as it is: {deeds:?}");
            let forced = orchestrator.remove_by_force(id, Trigger::Command, ANN).await.unwrap();
            assert!(matches!(forced, Swept::Removed(_)), "{forced:?}: {deeds:?}");
        }
        by_itself += usize::from(gone);
        by_force += usize::from(!gone);
        assert!(!path.exists());
        let back = orchestrator.restore(id, ANN).await.unwrap();
        assert!(matches!(&back, Restored::Back(..)), "{back:?}");
        assert_eq!(as_kept(content(&path), &fresh), as_kept(files, &fresh), "{back:?}: {deeds:?}");
        assert_eq!(state(&path), said, "{deeds:?}");
    }
    assert!(by_itself >= ROUNDS / 3 && by_force > 0, "{by_itself} and {by_force}");
    world.end().await;
}
