//! A backup that was taken while an activity ran, and everything rebuilt from it alone: the dump and its
//! loading as docs/operations.md has them, with RabbitMQ and Redis empty. Not covered: the binary log,
//! a Redis or RabbitMQ that is newer than the backup, and the commands that remove keys.

use std::{
    fs::File,
    process::{Command, Stdio},
};

use crate::harness::{Api, Bag, BagSpec, Finished, TempFile, World, eventually, finish, luckybag};

/// The MySQL client's programs go by another name than MariaDB's.
fn client(names: [&str; 2], url: &str) -> (Command, String) {
    let is_there = |name: &&str| {
        let version = Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        version.is_ok_and(|status| status.success())
    };
    let name = names.into_iter().find(is_there);
    let name = name.unwrap_or_else(|| panic!("{names:?}: one of them has to be installed"));
    let address = url.strip_prefix("mysql://").expect("a mysql:// URL");
    let (server, database) = address.rsplit_once('/').expect("a database");
    let (user, host) = server.rsplit_once('@').expect("a user");
    let (host, port) = host.split_once(':').expect("a port");
    let mut command = Command::new(name);
    command.args([
        format!("--host={host}"),
        format!("--port={port}"),
        format!("--user={user}"),
        "--protocol=tcp".to_owned(),
    ]);
    (command, database.to_owned())
}

async fn run(command: Command) -> Finished {
    let finished = tokio::task::spawn_blocking(move || finish(command));
    finished.await.expect("the command ends")
}

/// Everything that is stored, as of one moment.
async fn backup(world: &World) -> String {
    let (mut dump, database) = client(["mariadb-dump", "mysqldump"], &world.mysql_url);
    dump.args(["--single-transaction", "--quick", "--hex-blob", &database]);
    run(dump).await.printed().to_owned()
}

/// An empty database, and then what the backup holds.
async fn restore(world: &mut World, backup: &str) {
    let (mut empty, database) = client(["mariadb", "mysql"], &world.mysql_url);
    empty.arg(format!(
        "--execute=DROP DATABASE {database}; CREATE DATABASE {database} CHARACTER SET utf8mb4"
    ));
    run(empty).await.printed();
    let file = TempFile::new(backup);
    let (mut load, database) = client(["mariadb", "mysql"], &world.mysql_url);
    load.arg(database);
    let status = load
        .stdin(File::open(file.path()).expect("the backup"))
        .status()
        .expect("the client runs");
    assert!(status.success(), "{status}");
    world.reconnect();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bag_that_was_open_at_the_backup_is_drawn_from_it_and_its_proof_holds() {
    let mut world = World::new().await;
    let process = world.serve().await;
    let api = world.api(&process).await;
    let bag = api.open_bag(&BagSpec::waiting()).await;
    api.join_all(&bag, 1..=40).await;
    for user in 1..=40 {
        api.settled(&bag, user).await;
    }
    // What a dead process has claimed is told a minute later.
    world.nothing_owed().await;

    let crowd = api.join_all(&bag, 41..=140);
    let (backup, ()) = tokio::join!(backup(&world), crowd);
    process.kill().await;
    lose_everything(&world).await;
    restore(&mut world, &backup).await;

    let process = world.serve().await;
    let api = world.api(&process).await;
    let joined = world.participants(&bag, "joined").await;
    assert!(joined.is_superset(&(1..=40).collect()), "{joined:?}");
    assert_eq!(api.me(&bag, 7).await["participation"], "joined");
    eventually("the pool to be filled again", async || {
        world.check_pool(&bag).await
    })
    .await;
    world.draw_soon(&[bag]).await;
    world.all_drawn(&[bag]).await;
    world.assert_drawn_once(&bag).await;
    assert_results_are_told(&world, &api, &bag).await;
    assert_proof_holds(&world, &api, &bag).await;

    process.stop().await;
    world.end().await;
}

/// What RabbitMQ and Redis held; the database goes with the restore.
async fn lose_everything(world: &World) {
    let amqp = world.amqp().await;
    amqp.delete_all(&world.topology()).await;
    amqp.close().await;
    world.forget_redis().await;
}

async fn assert_results_are_told(world: &World, api: &Api, bag: &Bag) {
    world.nothing_owed().await;
    let wins = world.wins(bag.id).await;
    assert_eq!(wins.len(), 3);
    assert_eq!(
        api.winners(bag).await,
        wins.iter().map(|win| win.user_id).collect::<Vec<_>>()
    );
}

async fn assert_proof_holds(world: &World, api: &Api, bag: &Bag) {
    eventually("the proof", async || {
        let proof = api.get(&api.operator(), &bag.path("/proof")).await;
        if proof.status == 200 {
            Ok(())
        } else {
            Err(proof.body)
        }
    })
    .await;
    let proof = api.text(&api.operator(), &bag.path("/proof")).await;
    let file = TempFile::new(&proof);
    let path = file.path().to_owned();
    let variables = world.variables();
    let verified = tokio::task::spawn_blocking(move || luckybag(&["verify", &path], variables));
    verified.await.expect("it ends").printed();
}
