//! Operators who move dead letters back, each on a machine of its own.

use std::sync::Arc;
use std::time::Duration;

use backstop_core::text::chain;
use backstop_dead_letters::redrive::{
    self, Activity, DEFAULT_VISIBILITY, Plan, Ramp, RedriveError, RunFolder, Runs, Setup, To,
};
use backstop_dead_letters::{Attempts, Filters};
use backstop_queue::{Connections, LocalQueue, Queue};
use tokio_util::sync::CancellationToken;

use super::history::Event;
use super::host::Setting;
use super::link::{Identity, Link};
use super::plan::HOSTS;
use super::planted::spoilt_operator;

/// How often an operator tries to end a run. A lock counts for five minutes after its run was killed.
const TRIES: u32 = 12;

/// How long an operator waits before another try.
const PAUSE: Duration = Duration::from_secs(120);

/// An operator's process.
pub(crate) struct Operator {
    identity: Identity,
    number: usize,
    setting: Arc<Setting>,
}

impl Operator {
    pub(crate) fn new(setting: &Arc<Setting>, number: usize) -> Self {
        Self {
            identity: Identity::new(setting.next_id(), HOSTS + number, &setting.world),
            number,
            setting: Arc::clone(setting),
        }
    }

    fn runs(&self) -> Runs {
        let folder = self.setting.folder.join(format!("runs-{}", self.number));
        Runs::at(folder).in_place()
    }

    fn link(&self, queue: &Arc<LocalQueue>, dead: bool) -> Arc<dyn Queue> {
        let link = Link {
            host: self.identity.clone(),
            queue: Arc::clone(queue),
            dead,
            of_operator: true,
        };
        spoilt_operator(self.setting.world.planted, Arc::new(link), dead)
    }

    /// The run of this operator that has not ended well, if there is one.
    fn unfinished(&self) -> Option<RunFolder> {
        let runs = self.runs();
        let ids = runs.ids().unwrap();
        let folders = ids.iter().map(|id| runs.find(id).unwrap());
        let is_left = |folder: &RunFolder| folder.ledger().unwrap().letters_left() > 0;
        folders.into_iter().find(is_left)
    }

    async fn begun(&self) -> Result<RunFolder, RedriveError> {
        if let Some(folder) = self.unfinished() {
            return Ok(folder);
        }
        let dead = &self.setting.dead_letters;
        let started = dead.now();
        let plan = Plan {
            version: 1,
            run: Plan::new_id(started),
            started,
            who: format!("operator {}", self.number),
            why: None,
            queue: dead.url().to_owned(),
            endpoint_url: None,
            filters: Vec::new(),
            to: Some(To::Queue(self.setting.queue.url().to_owned())),
            default_to: None,
            watched: Vec::new(),
            attempts: Attempts::Reset,
            envelope_key_file: None,
            rate: None,
            ramp: Ramp::all(),
            stop_at: None,
            watch: Duration::ZERO,
            wait: Duration::from_secs(20),
            keep_copies: self.number == 1,
            edit: false,
            native: false,
            visibility: DEFAULT_VISIBILITY,
            most: 100,
        };
        self.runs().create(&plan).await
    }

    async fn setup(&self, stop: CancellationToken) -> Result<Setup, RedriveError> {
        let (queue, dead) = (&self.setting.queue, &self.setting.dead_letters);
        let connections = Connections::default().with_open(self.link(queue, false));
        Ok(Setup {
            queue: self.link(dead, true),
            connections: Arc::new(connections),
            folder: self.begun().await?,
            checked: None,
            filters: Filters::default(),
            interval: None,
            editor: None,
            keys: None,
            who: format!("operator {}", self.number),
            despite: None,
            activity: Arc::<Activity>::default(),
            stop,
        })
    }

    /// Moves the letters back, or goes on with a run that was left.
    pub(crate) async fn redrive(&self, stop: CancellationToken) -> bool {
        let (world, host) = (&self.setting.world, self.identity.id);
        world.happened(Event::RedriveBegan { host });
        let ended = match self.setup(stop).await {
            Ok(setup) => redrive::run(setup).await,
            Err(error) => Err(error),
        };
        let (is_done, result) = match ended {
            Ok(summary) => (true, summary.ended.outcome.as_str().to_owned()),
            Err(error) => (false, chain(&error)),
        };
        world.happened(Event::RedriveEnded { host, result });
        is_done
    }

    /// The process ends between two awaits.
    pub(crate) fn kill(&self) {
        self.identity.kill();
        let host = self.identity.id;
        self.setting.world.happened(Event::Killed { host });
    }

    /// Ends what this operator has begun, when nothing disturbs any more.
    pub(crate) async fn finish(setting: &Arc<Setting>, number: usize) {
        for _ in 0..TRIES {
            let operator = Self::new(setting, number);
            if operator.unfinished().is_none() {
                return;
            }
            operator.redrive(CancellationToken::new()).await;
            tokio::time::sleep(PAUSE).await;
        }
        let what = format!("the run of operator {number} does not end");
        setting.world.never_ended(what);
    }
}
