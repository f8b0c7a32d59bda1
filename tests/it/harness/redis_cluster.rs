//! A Redis Cluster of a test's own.

use futures_util::future::join_all;

use super::{RedisServer, eventually};

const SLOTS: usize = 16_384;
const MASTERS: usize = 3;

/// Three masters without replicas, a third of the slots each.
pub(crate) struct RedisCluster {
    pub(crate) nodes: Vec<RedisServer>,
}

impl RedisCluster {
    pub(crate) async fn start() -> Self {
        let starting = (0..MASTERS).map(|_| RedisServer::start_with(&["--cluster-enabled", "yes"]));
        let cluster = Self {
            nodes: join_all(starting).await,
        };
        for (number, node) in cluster.nodes.iter().enumerate() {
            let epoch = (number + 1).to_string();
            node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await;
            let own = number * SLOTS / MASTERS..(number + 1) * SLOTS / MASTERS;
            let own: Vec<String> = own.map(|slot| slot.to_string()).collect();
            let mut command = vec!["CLUSTER", "ADDSLOTS"];
            command.extend(own.iter().map(String::as_str));
            node.run(&command).await;
        }
        let first = &cluster.nodes[0];
        for other in &cluster.nodes[1..] {
            let port = other.port().to_string();
            first.run(&["CLUSTER", "MEET", "127.0.0.1", &port]).await;
        }
        for node in &cluster.nodes {
            cluster.wait_for_whole_view(node).await;
        }
        cluster
    }

    /// Waits until a node knows all others and the owner of every slot.
    async fn wait_for_whole_view(&self, node: &RedisServer) {
        let whole = [
            "cluster_state:ok".to_owned(),
            format!("cluster_slots_ok:{SLOTS}"),
            format!("cluster_size:{MASTERS}"),
            format!("cluster_known_nodes:{MASTERS}"),
        ];
        eventually("the cluster to form", async || {
            let info = node.run(&["CLUSTER", "INFO"]).await.concat();
            let is_known = |fact: &String| info.lines().any(|line| line == fact);
            if whole.iter().all(is_known) {
                Ok(())
            } else {
                Err(info)
            }
        })
        .await;
    }

    /// The URL that names every node.
    pub(crate) fn url(&self) -> String {
        let others: Vec<String> = self.nodes[1..]
            .iter()
            .map(|node| format!("node={}", node.address()))
            .collect();
        let first = self.nodes[0].address();
        format!("redis-cluster://{first}?{}", others.join("&"))
    }

    /// How many keys like `pattern` each node holds.
    pub(crate) async fn spread(&self, pattern: &str) -> Vec<usize> {
        let keys = self.nodes.iter().map(|node| async move {
            let keys = node.run(&["KEYS", pattern]).await;
            keys.len()
        });
        join_all(keys).await
    }

    /// Moves the slot of `key`, with all that is in it, to another node.
    pub(crate) async fn move_slot_of(&self, key: &str) {
        let slot = self.nodes[0].run(&["CLUSTER", "KEYSLOT", key]).await[0].clone();
        let (from, to) = self.owner_and_another(&slot).await;
        let from_id = from.run(&["CLUSTER", "MYID"]).await[0].clone();
        let to_id = to.run(&["CLUSTER", "MYID"]).await[0].clone();

        to.run(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])
            .await;
        from.run(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id])
            .await;
        let port = to.port().to_string();
        for key in from.run(&["CLUSTER", "GETKEYSINSLOT", &slot, "1000"]).await {
            from.run(&["MIGRATE", "127.0.0.1", &port, &key, "0", "5000"])
                .await;
        }
        to.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id]).await;
        for node in &self.nodes {
            node.run(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id])
                .await;
        }
    }

    async fn owner_and_another(&self, slot: &str) -> (&RedisServer, &RedisServer) {
        for (number, node) in self.nodes.iter().enumerate() {
            let held = node.run(&["CLUSTER", "COUNTKEYSINSLOT", slot]).await;
            if held[0] != "0" {
                return (node, &self.nodes[(number + 1) % MASTERS]);
            }
        }
        panic!("nothing is in slot {slot}");
    }
}
