//! Reads a CloudFormation template: resolves references, and returns permissions and settings as plain values.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// A CloudFormation template whose resources have names by their role, independent of their logical ids.
pub(super) struct Template {
    pub(super) resources: Map<String, Value>,
    pub(super) parameters: Value,
    pub(super) names: BTreeMap<String, String>,
}

impl Template {
    /// Reads JSON, and finds the role of each resource through the mapping and the on-failure destination.
    pub(super) fn read(json: &str) -> Self {
        let template: Value = serde_json::from_str(json).unwrap();
        let mut this = Self {
            resources: template["Resources"].as_object().unwrap().clone(),
            parameters: template["Parameters"].clone(),
            names: BTreeMap::new(),
        };
        let mapping = this.only("AWS::Lambda::EventSourceMapping");
        let config = this.only("AWS::Lambda::EventInvokeConfig");
        let (handler, function) = (id(&mapping["FunctionName"]), id(&config["FunctionName"]));
        let retries = id(&mapping["EventSourceArn"]);
        let redrive = &this.resources[&retries]["Properties"]["RedrivePolicy"];
        let dead_letters = id(&redrive["deadLetterTargetArn"]);
        for (name, function) in [("function", &function), ("handler", &handler)] {
            let properties = &this.resources[function]["Properties"];
            let role = id(&properties["Role"]);
            let logs = id(&properties["LoggingConfig"]["LogGroup"]);
            this.names.insert(role, format!("role of {name}"));
            this.names.insert(logs, format!("logs of {name}"));
        }
        for (name, id) in [
            ("function", function),
            ("handler", handler),
            ("retries", retries),
            ("dead letters", dead_letters),
        ] {
            this.names.insert(id, name.to_owned());
        }
        this
    }

    pub(super) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.resources
            .values()
            .filter(|resource| resource["Type"] == kind)
            .map(|resource| &resource["Properties"])
            .collect()
    }

    pub(super) fn only(&self, kind: &str) -> Value {
        let found = self.of_kind(kind);
        assert_eq!(found.len(), 1, "{kind}");
        found[0].clone()
    }

    /// The properties of the resource with this name.
    pub(super) fn named(&self, name: &str) -> &Value {
        let (id, _) = self.names.iter().find(|(_, it)| *it == name).unwrap();
        &self.resources[id]["Properties"]
    }

    /// A value as text, with references by name.
    pub(super) fn text(&self, value: &Value) -> String {
        match self.plain(value) {
            Value::String(text) => text,
            other @ (Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::Array(_)
            | Value::Object(_)) => panic!("{other} is not text"),
        }
    }

    /// A value with references by name and every scalar as text, because a parameter may be text where a property is a number.
    pub(super) fn plain(&self, value: &Value) -> Value {
        if let Some(text) = self.call(value) {
            return Value::String(text);
        }
        match value {
            Value::Array(values) => values.iter().map(|value| self.plain(value)).collect(),
            Value::Object(fields) => fields
                .iter()
                .map(|(name, value)| (name.clone(), self.plain(value)))
                .collect(),
            Value::String(text) => Value::String(text.clone()),
            Value::Null | Value::Bool(_) | Value::Number(_) => Value::String(value.to_string()),
        }
    }

    /// The result of an intrinsic function; `None` for any other value.
    pub(super) fn call(&self, value: &Value) -> Option<String> {
        let call = value.as_object().filter(|fields| fields.len() == 1)?;
        let (name, argument) = call.iter().next()?;
        match name.as_str() {
            "Ref" => Some(self.reference(argument.as_str()?)),
            "Fn::GetAtt" => {
                let (id, attribute) = (argument[0].as_str()?, argument[1].as_str()?);
                Some(format!("{}.{attribute}", self.reference(id)))
            }
            "Fn::Join" => {
                let parts: Vec<_> = many(&argument[1])
                    .into_iter()
                    .map(|part| self.text(part))
                    .collect();
                Some(parts.join(argument[0].as_str()?))
            }
            "Fn::Sub" => Some(self.substituted(argument.as_str()?)),
            _ => None,
        }
    }

    pub(super) fn reference(&self, id: &str) -> String {
        let default = &self.parameters[id]["Default"];
        match self.names.get(id) {
            Some(name) => name.clone(),
            None if default.is_null() => format!("${{{id}}}"),
            None => self.text(default),
        }
    }

    pub(super) fn substituted(&self, pattern: &str) -> String {
        let mut parts = pattern.split("${");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (name, rest) = part.split_once('}').unwrap();
            text += &match name.split_once('.') {
                Some((id, attribute)) => format!("{}.{attribute}", self.reference(id)),
                None => self.reference(name),
            };
            text += rest;
        }
        text
    }

    /// The permissions of every policy: role, action and resource. Managed policies are not allowed.
    pub(super) fn permissions(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        for (id, resource) in &self.resources {
            let properties = &resource["Properties"];
            match resource["Type"].as_str().unwrap() {
                "AWS::IAM::Role" => {
                    assert!(properties["ManagedPolicyArns"].is_null(), "{properties}");
                    for policy in properties["Policies"].as_array().into_iter().flatten() {
                        all.extend(self.allowed(&self.reference(id), &policy["PolicyDocument"]));
                    }
                }
                "AWS::IAM::Policy" => {
                    for role in many(&properties["Roles"]) {
                        all.extend(self.allowed(&self.text(role), &properties["PolicyDocument"]));
                    }
                }
                kind => assert!(!kind.ends_with("Policy"), "{kind}"),
            }
        }
        all
    }

    pub(super) fn allowed(&self, who: &str, document: &Value) -> Vec<String> {
        let mut allowed = Vec::new();
        for statement in many(&document["Statement"]) {
            assert_eq!(statement["Effect"], "Allow");
            for action in many(&statement["Action"]) {
                for resource in many(&statement["Resource"]) {
                    let (action, resource) = (self.text(action), self.text(resource));
                    allowed.push(format!("{who}: {action} on {resource}"));
                }
            }
        }
        allowed
    }

    /// The metric and the threshold of each alarm.
    pub(super) fn alarms(&self) -> BTreeSet<String> {
        self.of_kind("AWS::CloudWatch::Alarm")
            .into_iter()
            .map(|alarm| {
                assert_eq!(alarm["ComparisonOperator"], "GreaterThanOrEqualToThreshold");
                assert_eq!(alarm["TreatMissingData"], "notBreaching");
                let part = |name: &str| self.text(&alarm[name]);
                let (measured, period) = match alarm["Metrics"].as_array() {
                    Some(metrics) => self.calculated(metrics),
                    None => {
                        let metric = self.metric(alarm);
                        (format!("{metric}: {}", part("Statistic")), part("Period"))
                    }
                };
                let (threshold, periods) = (part("Threshold"), part("EvaluationPeriods"));
                format!("{measured} from {threshold} for {periods} x {period} s")
            })
            .collect()
    }

    /// The expression of an alarm with its metrics, and their common period.
    fn calculated(&self, metrics: &[Value]) -> (String, String) {
        let (calculated, measured): (Vec<_>, Vec<_>) =
            metrics.iter().partition(|it| it["Expression"].is_string());
        assert_eq!(calculated.len(), 1, "{metrics:?}");
        assert_ne!(calculated[0]["ReturnData"], false);
        let mut periods = BTreeSet::new();
        let mut names = BTreeSet::new();
        for metric in measured {
            assert_eq!(metric["ReturnData"], false, "{metric}");
            let (id, stat) = (self.text(&metric["Id"]), &metric["MetricStat"]);
            periods.insert(self.text(&stat["Period"]));
            let (of, statistic) = (self.metric(&stat["Metric"]), self.text(&stat["Stat"]));
            names.insert(format!("{id} = {of}: {statistic}"));
        }
        assert_eq!(periods.len(), 1, "{periods:?}");
        let names: Vec<_> = names.into_iter().collect();
        let expression = self.text(&calculated[0]["Expression"]);
        let measured = format!("{expression} with {}", names.join(", "));
        (measured, periods.into_iter().collect())
    }

    /// The name of a metric and what it is of.
    fn metric(&self, metric: &Value) -> String {
        let of = metric["Dimensions"][0].get("Value");
        let of = of.map_or_else(String::new, |of| format!(" of {}", self.text(of)));
        let (namespace, name) = (&metric["Namespace"], &metric["MetricName"]);
        format!("{} {}{of}", self.text(namespace), self.text(name))
    }

    /// The expression of the only alarm that has one.
    pub(super) fn expression(&self) -> String {
        let alarms = self.of_kind("AWS::CloudWatch::Alarm");
        let metrics = alarms
            .iter()
            .filter_map(|alarm| alarm["Metrics"].as_array());
        let mut found = metrics.flatten().filter_map(|it| it["Expression"].as_str());
        let first = found.next().unwrap().to_owned();
        assert_eq!(found.next(), None);
        first
    }

    /// What the dashboard shows.
    pub(super) fn dashboard(&self) -> Value {
        let dashboard = self.only("AWS::CloudWatch::Dashboard");
        serde_json::from_str(&self.text(&dashboard["DashboardBody"])).unwrap()
    }

    /// The settings of all resources except roles and alarms, without those that must differ: the location of the code and the names of the queues.
    pub(super) fn settings(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for (id, resource) in &self.resources {
            let kind = resource["Type"].as_str().unwrap();
            if kind.starts_with("AWS::IAM::") || kind == "AWS::CloudWatch::Alarm" {
                continue;
            }
            if kind == "AWS::CloudWatch::Dashboard" {
                all.insert(kind.to_owned(), self.dashboard());
                continue;
            }
            let mut settings = self.plain(&resource["Properties"]);
            for differs in ["Code", "Tags", "QueueName", "RedriveAllowPolicy"] {
                settings.as_object_mut().unwrap().remove(differs);
            }
            let name = self.names.get(id).map_or(kind, String::as_str);
            assert_eq!(all.insert(name.to_owned(), settings), None, "two of {name}");
        }
        all
    }
}

/// The logical id of a reference.
pub(super) fn id(reference: &Value) -> String {
    reference["Ref"]
        .as_str()
        .or_else(|| reference["Fn::GetAtt"][0].as_str())
        .unwrap_or_else(|| panic!("no reference: {reference}"))
        .to_owned()
}

/// The items of a list, or a single value as its only item.
pub(super) fn many(value: &Value) -> Vec<&Value> {
    value
        .as_array()
        .map_or_else(|| vec![value], |values| values.iter().collect())
}
