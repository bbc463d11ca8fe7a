"""Reads the Terraform module of `examples/lambda/terraform` with fixed names, and prints what it makes as JSON. Fails at a reference to what is not there. Usage: terraform.py FOLDER TEMPLATE_OF_SAM"""

import json
import pathlib
import re
import sys

import hcl2
import yaml

FOLDER, TEMPLATE = map(pathlib.Path, sys.argv[1:])
PLACE = "eu-west-1:123456789012"
TRAVERSAL = re.compile(r"\b(?:data\.)?(?:var|local|aws_\w+)\.[\w.]+")

resources, variables, outputs, local_values = {}, {}, {}, {}


def plain(value):
    """A value without the quotes and marks of the parser."""
    if isinstance(value, list):
        return [plain(it) for it in value]
    if isinstance(value, dict):
        return {key.strip('"'): plain(it) for key, it in value.items() if not key.startswith("__")}
    if isinstance(value, str) and value.startswith('"'):
        return value[1:-1].replace('\\"', '"')
    return value


texts = {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.tf"))}
for text in texts.values():
    module = hcl2.loads(text)
    for prefix, kind in (("", "resource"), ("data.", "data")):
        for block in plain(module.get(kind, [])):
            for type_, named in block.items():
                resources.update({f"{prefix}{type_}.{name}": body for name, body in named.items()})
    for kind, all_ in (("variable", variables), ("output", outputs)):
        for block in plain(module.get(kind, [])):
            all_.update(block)
    for block in plain(module.get("locals", [])):
        local_values.update(block)

# Every reference leads somewhere, and every variable is used.
used = set()
for path, text in texts.items():
    code = re.sub(r"#.*", "", text)
    for reference in TRAVERSAL.findall(code):
        parts = reference.removeprefix("data.").split(".")
        if parts[0] == "var":
            assert parts[1] in variables, f"{path}: {reference}"
            used.add(parts[1])
        elif parts[0] == "local":
            assert parts[1] in local_values, f"{path}: {reference}"
        else:
            name = ("data." if reference.startswith("data.") else "") + ".".join(parts[:2])
            assert name in resources, f"{path}: {reference}"
assert used == set(variables), set(variables) ^ used
assert all("description" in it for it in [*variables.values(), *outputs.values()])


def arn(service, rest):
    return f"arn:aws:{service}:{PLACE}:{rest}"


KNOWN = {
    "var.name": "orders",
    "var.function.name": "function",
    "var.function.arn": arn("lambda", "function:function"),
    "var.function.role": "role of function",
    "aws_sqs_queue.retries.arn": arn("sqs", "orders-retries"),
    "aws_sqs_queue.dead_letters.arn": arn("sqs", "orders-dead-letters"),
    "aws_sqs_queue.retries.name": "retries",
    "aws_sqs_queue.dead_letters.name": "dead letters",
    "aws_lambda_function.handler.arn": arn("lambda", "function:orders-retry-handler"),
    "aws_lambda_function.handler.function_name": "handler",
    "aws_cloudwatch_log_group.handler.arn": arn("logs", "log-group:/aws/lambda/orders-retry-handler"),
    "aws_iam_role.handler.id": "role of handler",
    "each.key": "each",
}


def known(value):
    """A value with its references resolved."""
    if isinstance(value, list):
        return [known(it) for it in value]
    if not isinstance(value, str):
        return value
    whole = re.fullmatch(r"\$\{var\.(\w+)\}", value)
    if whole and f"var.{whole[1]}" not in KNOWN:
        return variables[whole[1]]["default"]
    return re.sub(r"\$\{([^}]+)\}", lambda it: KNOWN[it[1]], value)


permissions = set()
for name, policy in resources.items():
    if not name.startswith("aws_iam_role_policy."):
        continue
    document = resources[policy["policy"][2:-1].removesuffix(".json")]
    for statement in document["statement"]:
        for action in statement["actions"]:
            for resource in statement["resources"]:
                permissions.add(f"{known(policy['role'])}: {action} on {known(resource)}")


def sam():
    """The alarms of the SAM template, and its resources."""
    class Loader(yaml.SafeLoader):
        pass

    Loader.add_multi_constructor("!", lambda loader, tag, node: getattr(node, "value", None))
    return yaml.load(TEMPLATE.read_text(encoding="utf-8"), Loader)["Resources"]


def alarm(metric, namespace, statistic, periods, threshold):
    return f"{namespace} {metric if namespace != 'Backstop' else 'error lines'}: {statistic} from {threshold} for {periods}"


of_sam = sorted(
    alarm(it["MetricName"], it["Namespace"], it["Statistic"], it["EvaluationPeriods"], 100 if it["Threshold"] == "ManyFailures" else it["Threshold"])
    for it in (resource["Properties"] for resource in sam().values() if resource["Type"] == "AWS::CloudWatch::Alarm")
    if "MetricName" in it
)
of_module = sorted(
    alarm(it["metric"], it["namespace"], it["statistic"], it["periods"], known(it["threshold"]))
    for it in local_values["alarms"].values()
)
calculated = next(it["Properties"]["Metrics"] for it in sam().values() if "Metrics" in it.get("Properties", {}))
query = resources["aws_cloudwatch_metric_alarm.dead_letter"]["metric_query"][0]

print(json.dumps({
    "permissions": sorted(permissions),
    "alarms": [of_module, of_sam],
    "alarm of letters": [
        [query["expression"], {key: [it["metric"], it["stat"]] for key, it in local_values["letters"].items()}],
        [calculated[0]["Expression"], {it["Id"]: [it["MetricStat"]["Metric"]["MetricName"], it["MetricStat"]["Stat"]] for it in calculated[1:]}],
    ],
    "variables": sorted(resources["aws_lambda_function.handler"]["environment"][0]["variables"]),
    "variables of sam": sorted(sam()["RetryHandler"]["Properties"]["Environment"]["Variables"]),
    "resources": resources,
}))
