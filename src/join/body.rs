//! What a join may say, and what an activity asks it to say.

use serde::Deserialize;
use utoipa::ToSchema;

use crate::{activity::Task, candidate::is_device_id, http::FieldErrors};

/// Most completed tasks that one join may name.
const MAX_COMPLETED_TASKS: usize = 20;

/// The body of a join; all of it may be left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JoinBody {
    #[schema(min_length = 1, max_length = 64, pattern = "^[!-~]([ -~]*[!-~])?$")]
    pub device_id: Option<String>,
    #[serde(default)]
    #[schema(max_items = 20)]
    pub completed_tasks: Vec<String>,
}

/// What an activity asks of a join.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demands<'a> {
    pub(super) tasks: &'a [Task],
    pub(super) one_entry_per_device: bool,
}

impl JoinBody {
    /// Refuses what cannot be right, every fault at once.
    pub(super) fn check(&self, demands: Demands<'_>) -> Result<(), FieldErrors> {
        let mut faults = FieldErrors::new();
        match self.device_id.as_deref() {
            None if demands.one_entry_per_device => {
                faults.add("deviceId", "this activity needs a device id");
            }
            Some(device_id) if !is_device_id(device_id) => faults.add(
                "deviceId",
                "a device id is 1 to 64 printable ASCII characters without spaces around them",
            ),
            Some(_) | None => (),
        }
        self.check_tasks(demands.tasks, &mut faults);
        if faults.is_empty() {
            Ok(())
        } else {
            Err(faults)
        }
    }

    fn check_tasks(&self, known: &[Task], faults: &mut FieldErrors) {
        if self.completed_tasks.len() > MAX_COMPLETED_TASKS {
            faults.add("completedTasks", "at most 20 tasks");
            return;
        }
        for (index, task_id) in self.completed_tasks.iter().enumerate() {
            if !known.iter().any(|task| task.task_id == *task_id) {
                let field = format!("completedTasks[{index}]");
                faults.add(field, "this activity has no such task");
            }
        }
    }

    /// The named tasks, each once.
    pub(super) fn into_completed_tasks(self) -> Vec<String> {
        let mut tasks = self.completed_tasks;
        tasks.sort_unstable();
        tasks.dedup();
        tasks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &str) -> JoinBody {
        serde_json::from_str(json).unwrap()
    }

    /// What an activity asks with one entry a device, and without.
    #[derive(Clone, Copy)]
    enum Entry {
        Any,
        OneADevice,
    }

    use Entry::{Any, OneADevice};

    fn fields(body: &JoinBody, entry: Entry) -> Vec<String> {
        let tasks = ["follow", "share"].map(|task_id| Task {
            task_id: task_id.to_owned(),
            title: String::new(),
        });
        let demands = Demands {
            tasks: &tasks,
            one_entry_per_device: matches!(entry, OneADevice),
        };
        let Err(faults) = body.check(demands) else {
            return vec![];
        };
        let faults = faults.faults().iter();
        faults.map(|fault| fault.field.clone()).collect()
    }

    #[test]
    fn a_join_may_say_nothing_unless_the_activity_takes_one_entry_a_device() {
        assert_eq!(fields(&body("{}"), Any), [""; 0]);
        assert_eq!(fields(&body("{}"), OneADevice), ["deviceId"]);
        assert_eq!(fields(&body(r#"{"deviceId":"d-1"}"#), OneADevice), [""; 0]);
    }

    #[test]
    fn a_device_id_is_short_printable_and_has_no_spaces_around_it() {
        let with_device = |device_id: &str| JoinBody {
            device_id: Some(device_id.to_owned()),
            completed_tasks: vec![],
        };
        for good in ["d", "a b", &"x".repeat(64)] {
            assert_eq!(fields(&with_device(good), OneADevice), [""; 0], "{good:?}");
        }
        for bad in ["", " ", "d ", "d\n", "设备", &"x".repeat(65)] {
            assert_eq!(fields(&with_device(bad), Any), ["deviceId"], "{bad:?}");
        }
    }

    #[test]
    fn every_task_that_is_not_the_activitys_is_named() {
        let join = body(r#"{"completedTasks":["like","follow","buy"]}"#);
        assert_eq!(
            fields(&join, Any),
            ["completedTasks[0]", "completedTasks[2]"]
        );

        let many = JoinBody {
            device_id: None,
            completed_tasks: vec!["follow".to_owned(); 21],
        };
        assert_eq!(fields(&many, OneADevice), ["deviceId", "completedTasks"]);
    }

    #[test]
    fn a_task_named_twice_counts_once() {
        let join = body(r#"{"completedTasks":["share","follow","share"]}"#);
        assert_eq!(join.into_completed_tasks(), ["follow", "share"]);
    }

    #[test]
    fn an_unknown_field_is_refused() {
        assert!(serde_json::from_str::<JoinBody>(r#"{"userId":"7"}"#).is_err());
    }
}
