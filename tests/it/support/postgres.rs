//! A real PostgreSQL for tests: the server `TEST_POSTGRES_URL` names, else a throw-away cluster made from installed
//! binaries, else none. The cluster is started once for a test process, on a free loopback port, never as root, and ends
//! with the process, however that ends: a small shell waits for a pipe to close.

use sqlx::{Connection, PgConnection, postgres::PgConnectOptions};
use std::{
    env, fs, io,
    net::TcpListener,
    os::unix::{
        fs::{MetadataExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    str::FromStr,
    time::{Duration, Instant},
};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// A database of its own for one test.
pub struct Database {
    pub url: String,
    server: String,
    name: String,
}

impl Database {
    /// An empty database; `None` when this machine has no PostgreSQL.
    pub async fn create() -> Option<Self> {
        static SERVER: OnceCell<Option<Server>> = OnceCell::const_new();
        let server = SERVER.get_or_init(Server::find).await.as_ref()?.url.clone();
        let name = format!("test_{}", Uuid::now_v7().simple());
        run(&server, format!("CREATE DATABASE {name}")).await;
        let (before, query) = server.split_once('?').map_or((server.as_str(), None), |(url, query)| (url, Some(query)));
        let (host, _) = before.rsplit_once('/').expect("a server's URL names a database");
        let url = format!("{host}/{name}{}", query.map(|query| format!("?{query}")).unwrap_or_default());
        Some(Self { url, server, name })
    }

    /// Removes it again. A test that fails leaves it behind to be looked at.
    pub async fn drop(self) {
        run(&self.server, format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }
}

async fn run(server: &str, statement: String) {
    let options = PgConnectOptions::from_str(server).expect("TEST_POSTGRES_URL is a URL");
    let mut connection = PgConnection::connect_with(&options).await.expect("the test server answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.expect("the test server obeys");
    connection.close().await.expect("the connection closes");
}

struct Server {
    url: String,
    /// Its standard input is the pipe whose closing ends the cluster.
    _cluster: Option<Child>,
}

impl Server {
    async fn find() -> Option<Self> {
        if let Ok(url) = env::var("TEST_POSTGRES_URL") {
            return Some(Self { url, _cluster: None });
        }
        let Some(binaries) = newest_binaries() else {
            eprintln!("no PostgreSQL found: these tests run on SQLite only");
            return None;
        };
        Some(Self::start(&binaries).await)
    }

    async fn start(binaries: &Path) -> Self {
        let home = tempfile::Builder::new().prefix("pg-").tempdir().expect("a temporary directory").keep();
        let user = ordinary_user(&home);
        if let Some(user) = user {
            chown(&home, Some(user), None).expect("root gives a directory away");
        }
        let as_user = |program: &Path| {
            let mut command = Command::new(program);
            command.current_dir(&home).env_clear().env("LC_ALL", "C").stdout(Stdio::null()).stderr(Stdio::null());
            if let Some(user) = user {
                command.uid(user);
            }
            command
        };
        let made = as_user(&binaries.join("initdb"))
            .args(["--no-sync", "--auth=trust", "--username=test", "--encoding=UTF8", "--pgdata=data"])
            .stdin(Stdio::null())
            .status()
            .expect("initdb runs");
        assert!(made.success(), "initdb failed");
        let port = free_port().expect("a free port");
        let script = "\"$1\" -D data -p \"$2\" -h 127.0.0.1 -k \"$PWD\" -F & server=$!
                      read -r _; kill -INT $server; wait $server; cd /; rm -rf \"$3\"";
        let cluster = as_user(Path::new("/bin/sh"))
            .args(["-c", script, "sh"])
            .arg(binaries.join("postgres"))
            .arg(port.to_string())
            .arg(&home)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .spawn()
            .expect("the cluster starts");
        let url = format!("postgres://test@127.0.0.1:{port}/postgres");
        await_answer(&url).await;
        Self { url, _cluster: Some(cluster) }
    }
}

fn newest_binaries() -> Option<PathBuf> {
    let versions = fs::read_dir("/usr/lib/postgresql").ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let version = |path: &PathBuf| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok());
    let newest = versions.filter(|path| path.join("bin/initdb").exists()).max_by_key(version)?;
    Some(newest.join("bin"))
}

/// The server refuses to run as root; then it runs as a user that exists for such things.
fn ordinary_user(own: &Path) -> Option<u32> {
    if fs::metadata(own).expect("an own directory").uid() != 0 {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").expect("a list of users");
    let id = |name: &str| {
        users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')?.split(':').nth(1)?.parse().ok())
    };
    id("postgres").or_else(|| id("nobody"))
}

fn free_port() -> io::Result<u16> {
    TcpListener::bind("127.0.0.1:0")?.local_addr().map(|address| address.port())
}

async fn await_answer(url: &str) {
    let options = PgConnectOptions::from_str(url).expect("an own URL");
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match PgConnection::connect_with(&options).await {
            Ok(connection) => return connection.close().await.expect("the connection closes"),
            Err(error) => assert!(Instant::now() < deadline, "the cluster does not answer: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
