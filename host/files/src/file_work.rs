//! Work that waits for files, and where it is done.

/// Where work is done that waits for files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FileWork {
    /// On a thread of its own, so that it delays no other task.
    #[default]
    OnAThread,
    /// By the task that asks, so that nothing depends on how threads take turns: for simulations.
    InPlace,
}

impl FileWork {
    /// Does the work. `None` if it panics on its thread.
    pub async fn run<T: Send + 'static>(
        self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        match self {
            Self::OnAThread => tokio::task::spawn_blocking(work).await.ok(),
            Self::InPlace => Some(work()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_in_place_is_done_by_the_thread_that_asks() {
        let this = std::thread::current().id();
        let there = || std::thread::current().id();
        assert_eq!(FileWork::InPlace.run(there).await, Some(this));
        assert_ne!(FileWork::OnAThread.run(there).await, Some(this));
    }
}
