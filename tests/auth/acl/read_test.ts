import assert from "node:assert/strict";
import { accepted, ALL_BUILT, channels, load } from "../../config/support.ts";
import { readAcl } from "../../../src/auth/acl/read.ts";
import { Findings } from "../../../src/config/finding.ts";
import { acl, ACL_FILE, aclFindings, oneRole, PLANT, utf8 } from "../support.ts";

/** A rule and the beginnings of what is said of it, without the line and the path of the rule. */
type Refusal = readonly [rule: string, ...says: readonly string[]];

const REFUSED_RULES: readonly Refusal[] = [
  // The subject.
  ["{allow: [read]}", " has no subject; write one of channel:, topic: and broker:"],
  ["{channel: welds, topic: x, allow: [write]}", " has the subjects channel and topic; write one"],
  [
    "{chanel: welds, allow: [write]}",
    " has no subject; write one of",
    ".chanel is not a key here; did you mean channel?",
  ],
  ["{topic: x, allow: [read], qos: 1}", ".qos is not a key here; the keys are channel, topic,"],
  ["read", " is a text; write channel:, topic: or broker: with allow:"],
  ["[]", " is a list; write"],
  ["{channel: [a], allow: [read]}", ".channel is a list; write the name of a channel"],
  ["{channel: !include a, allow: [read]}", ".channel is an !include, which only a configuration"],
  ["{topic: , allow: [read]}", ".topic has no value; write a topic filter"],
  ['{topic: "", allow: [read]}', ".topic is empty; write a topic filter"],
  // Channels.
  [
    "{channel: pump-lot, allow: [read]}",
    '.channel "pump-lot" is a channel that is not configured; did you mean pump-log?',
  ],
  [
    "{channel: broadcast, allow: [read]}",
    '.channel "broadcast" is a channel that is not configured; write pump-log, pump-state,',
  ],
  [
    '{channel: "pump-%u", allow: [read]}',
    '.channel "pump-%u" holds a %, and substitution is not allowed in a channel name; write filter',
  ],
  // Verbs.
  [
    "{channel: pump-log}",
    ".allow is missing, and nothing is granted without it; write a list of wr",
  ],
  ["{channel: pump-log, allow: []}", ".allow grants nothing; write a list of write, read or seek"],
  ["{channel: pump-log, allow: read}", ".allow is a text; write a list of write, read or seek"],
  [
    "{channel: pump-log, allow: [read, delete]}",
    '.allow "delete" is no verb of a channel of type append; write write, read or seek',
  ],
  [
    "{channel: pump-state, allow: [seek]}",
    '.allow "seek" is no verb of a channel of type latest; write write, read or delete',
  ],
  [
    "{channel: welds, allow: [write, seek]}",
    '.allow "seek" is no verb of a channel of type queue; write write or consume',
  ],
  [
    "{channel: welds__dlq, allow: [consume]}",
    '.allow "consume" is no verb of a channel of type append; write write, read or seek',
  ],
  [
    "{channel: welds, allow: [read]}",
    '.allow "read" is not granted on a queue, which cannot be watched; how much it holds is in its',
  ],
  ["{topic: x, allow: [consume]}", '.allow "consume" is no verb of a broadcast topic; write write'],
  ["{topic: x, allow: [read, read]}", '.allow "read" stands in the list twice; keep it once'],
  ["{topic: x, allow: [read, {a: b}]}", ".allow is a mapping; write a list of write or read"],
  // Filters.
  [
    '{channel: pump-log, filter: "plant/#/x", allow: [read]}',
    '.filter "plant/#/x" is no topic filter: "#" stands only at the end',
  ],
  [
    "{channel: pump-log, filter: plant/p+/x, allow: [read]}",
    '.filter "plant/p+/x" is no topic filter: "+" stands for a whole level',
  ],
  [
    '{channel: pump-log, filter: "plant/{a,}/x", allow: [read]}',
    '.filter "plant/{a,}/x" is no topic filter: "{a,}" has an empty alternative; write every',
  ],
  ['{topic: "a/#/b", allow: [read]}', '.topic "a/#/b" is no topic filter: "#" stands only at'],
  ['{topic: "a\\u0001b", allow: [read]}', '.topic "a\\u0001b" holds a control character'],
  [
    "{channel: pump-log, filter: plant/tank/#, allow: [read]}",
    '.filter "plant/tank/#" shares no topic with the filter "plant/pump/+/+/#" of channel "pump-l',
  ],
  [
    '{channel: pump-log, filter: "plant/{pump,tank}/#", allow: [read]}',
    '.filter "plant/{pump,tank}/#" shares no topic as "plant/tank/#" with the filter "plant/pump/',
  ],
  [
    '{channel: tank-log, filter: "plant/tank/t1/%c", allow: [read]}',
    '.filter "plant/tank/t1/%c" shares no topic with the filter "plant/tank/+/{level,alarm}" of',
  ],
  [
    "{topic: plant/pump/p9/rpm, allow: [read]}",
    '.topic "plant/pump/p9/rpm" lies inside the filter "plant/pump/+/+/#" of channel "pump-log", ' +
    "whose topics no topic rule is asked about; write channel: pump-log, with filter: if it is",
  ],
  [
    "{topic: plant/pump/%u/%c, allow: [read]}",
    '.topic "plant/pump/%u/%c" lies inside the filter "plant/pump/+/+/#" of channel "pump-log"',
  ],
  [
    '{topic: "{a,plant}/pump/p9/rpm", allow: [read]}',
    '.topic "{a,plant}/pump/p9/rpm" lies as "plant/pump/p9/rpm" inside the filter "plant/pump/+/+',
  ],
  [
    "{topic: shop/s1/weld/__dlq, allow: [read]}",
    '.topic "shop/s1/weld/__dlq" lies inside the filter "shop/+/weld/__dlq" of channel "welds__dlq"',
  ],
  ["{topic: tasks, allow: [write]}", '.topic "tasks" lies inside the filter "tasks/#" of channel'],
  [
    `{topic: a${"/b".repeat(200)}, allow: [read]}`,
    `.topic "a${
      "/b".repeat(59)
    }/..." has 201 levels, more than limits.max_topic_levels (200); shorten it, or raise the limit`,
  ],
  [
    `{channel: tasks, filter: tasks${"/b".repeat(200)}, allow: [write]}`,
    `.filter "tasks${"/b".repeat(57)}/..." has 201 levels, more than limits.max_topic_levels (200)`,
  ],
  ["{topic: x, filter: x, allow: [read]}", ".filter goes with channel: only, where it narrows"],
  [
    "{topic: $saguin/queue/welds, allow: [read]}",
    '.topic "$saguin/queue/welds" is under $saguin, which no topic rule opens; what is done there',
  ],
  [
    "{topic: $share/g/x, allow: [read]}",
    '.topic "$share/g/x" is under $share, which no topic rule',
  ],
  ["{topic: $SYS/#, allow: [read]}", '.topic "$SYS/#" is under $SYS, which no topic rule opens'],
  // The broker's own.
  [
    "{broker: session, allow: [disconnect]}",
    '.broker "session" is nothing of the broker\'s; did y',
  ],
  [
    "{broker: sessions}",
    ".allow is missing, and nothing is granted without it; write a list of di",
  ],
  [
    "{broker: sessions, allow: [kick]}",
    '.allow "kick" is no verb of broker: sessions; write disconnect',
  ],
  [
    "{broker: amqp, allow: [disconnect]}",
    '.allow "disconnect" is no verb of broker: amqp; write connect',
  ],
  ["{broker: sessions, filter: a, allow: [disconnect]}", ".filter goes with channel: only"],
  ["{broker: __proto__, allow: [x]}", '.broker "__proto__" is nothing of the broker\'s'],
  // Features.
  ["{channel: welds, allow: [write], deny: [will]}", ".deny goes with broker: features only"],
  ["{topic: x, allow: [write], deny: [will]}", ".deny goes with broker: features only"],
  [
    "{broker: sessions, allow: [disconnect], deny: [will]}",
    ".deny goes with broker: features only",
  ],
  [
    "{broker: features, allow: [will]}",
    ".allow does not go with broker: features, of which everything is allowed that no rule denies",
  ],
  ["{broker: features}", ".deny is missing; write a list of persistent, will, share, retained or"],
  ["{broker: features, deny: []}", ".deny denies nothing; remove the rule"],
  ["{broker: features, deny: will}", ".deny is a text; write a list of persistent, will, share,"],
  [
    "{broker: features, deny: [retain]}",
    '.deny "retain" is the flag of a publish; the feature is called retained, write that',
  ],
  ["{broker: features, deny: [qos1]}", '.deny "qos1" is no feature; did you mean qos2?'],
  ["{broker: features, deny: [bridges]}", '.deny "bridges" is no feature; write persistent, will,'],
  ["{broker: features, deny: [will, will]}", '.deny "will" stands in the list twice; keep it once'],
];

for (const [rule, ...says] of REFUSED_RULES) {
  Deno.test(`02b 7.2 refused: ${rule.slice(0, 70)}`, () => {
    const found = aclFindings(oneRole(rule));
    assert.equal(found.length, says.length, found.join("\n"));
    for (const [i, said] of says.entries()) {
      assert.match(found[i], /^3:\d+ roles\.r\[1\]/);
      const rest = found[i].replace(/^3:\d+ roles\.r\[1\]/, "");
      assert.equal(rest.slice(0, said.length), said);
    }
  });
}

const GOOD_RULES: readonly string[] = [
  '{topic: "#", allow: [read, write]}',
  '{topic: "+/x", allow: [read]}',
  '{topic: "plant/#", allow: [read]}',
  '{topic: "diag/%u/%c", allow: [write]}',
  '{topic: "{diag,trace}/dev-%u/{a,b}/#", allow: [write]}',
  '{topic: "$other/x", allow: [read]}',
  '{topic: "100%/x", allow: [read]}',
  "{channel: pump-log, allow: [write, read, seek]}",
  "{channel: pump-state, allow: [delete]}",
  "{channel: welds, allow: [consume]}",
  "{channel: welds__dlq, allow: [write, read, seek]}",
  '{channel: tank-log, filter: "plant/tank/%u/{level,alarm}", allow: [write]}',
  '{channel: tasks, filter: "tasks/{a,b}/#", allow: [write]}',
  '{channel: tank-log, filter: "#", allow: [read]}',
  `{topic: a${"/b".repeat(199)}, allow: [read]}`,
  "{broker: sessions, allow: [disconnect]}",
  "{broker: amqp, allow: [connect]}",
  "{broker: features, deny: [persistent, will, share, retained, qos2]}",
];

for (const rule of GOOD_RULES) {
  Deno.test(`02b 7.2 accepted: ${rule.slice(0, 70)}`, () => {
    assert.deepEqual(aclFindings(oneRole(rule)), []);
  });
}

/** A whole file and everything that is said of it. */
const REFUSED_FILES: Readonly<Record<string, readonly [text: string, ...says: readonly string[]]>> =
  {
    "an empty file": ["", "1:1 has no value; write roles: and users:"],
    "a list": ["- a\n", "1:1 is a list; write roles: and users:"],
    "no users": [
      "roles: {}\n",
      "1:1 users is missing, and nobody is granted anything without it; write user names and their " +
      "roles, or users: {}",
    ],
    "clients:": [
      "roles: {r: []}\nclients:\n  x: [r]\n",
      "2:1 clients is not how users are granted roles; write users:, by user name",
    ],
    "another key": [
      "user: {}\n",
      "1:1 user is not a key here; did you mean users?",
      "1:1 users is mis",
    ],
    "roles that are no mapping": [
      "roles: [r]\nusers: {}\n",
      "1:8 roles is a list; write role names an",
    ],
    "a role without a list": [
      "roles:\n  r:\n  s: {topic: x}\nusers: {}\n",
      "2:5 roles.r has no value; write a list of rules, or [] for none",
      "3:6 roles.s is a mapping; write a list of rules, or [] for none",
    ],
    "a role without a name": [
      'roles: {"": []}\nusers: {}\n',
      "1:9 roles. is no role name; write one",
    ],
    "users that are no mapping": [
      "users: [x]\n",
      "1:8 users is a list; write user names or patterns",
    ],
    "a user without roles": [
      "roles: {r: []}\nusers:\n  a: {limits: {publish_rate: 1}}\n  b:\n  c: r\n",
      "3:3 users.a.roles is missing; write a list of roles, or roles: [] to grant nothing",
      "4:5 users.b has no value; write a list of roles, or roles: with client_ids: and limits:",
      "5:6 users.c is a text; write a list of roles, or roles: with client_ids: and limits:",
    ],
    "a role that is not there": [
      "roles: {meter: []}\nusers:\n  a: [metre]\n  b: {roles: [x]}\n",
      '3:7 users.a "metre" is a role that the file does not have; did you mean meter?',
      '4:15 users.b.roles "x" is a role that the file does not have; write meter',
    ],
    "a role twice": [
      "roles: {r: []}\nusers:\n  a: [r, r]\n",
      '3:10 users.a "r" stands in the list twic',
    ],
    "an unknown key of a user": [
      "roles: {r: []}\nusers:\n  a: {roles: [r], client_id: x}\n",
      "3:19 users.a.client_id is not a key here; did you mean client_ids?",
    ],
    "client_ids: that admit nobody": [
      'roles: {}\nusers:\n  a: {roles: [], client_ids: []}\n  b: {roles: [], client_ids: ""}\n' +
      '  c: {roles: [], client_ids: [x, ""]}\n  d: {roles: [], client_ids: }\n',
      "3:30 users.a.client_ids is empty and admits nobody; write a pattern, or leave it out for any",
      '4:30 users.b.client_ids "" is empty and admits nobody; write a pattern, or leave it out for',
      '5:34 users.c.client_ids "" is empty and admits nobody; write a pattern, or leave it out for',
      "6:30 users.d.client_ids has no value; write a pattern of client ids such as",
    ],
    "client_ids: about the client id": [
      'users:\n  a: {roles: [], client_ids: "%c"}\n',
      '2:30 users.a.client_ids "%c" holds %c, which is the client id that the pattern is compared wi',
    ],
    "limits of 0": [
      "users:\n  a: {roles: [], limits: {publish_rate: 0, publish_bytes: 0}}\n",
      '2:41 users.a.limits.publish_rate "0" is zero: 0 is not "unbounded", which a user is whose ' +
      "limits: leave the key out; write a whole number of at least 1",
      '2:59 users.a.limits.publish_bytes "0" is zero: 0 is not "unbounded"',
    ],
    "limits of another kind": [
      "users:\n  a: {roles: [], limits: {publish_rate: none, publish_bytes: 1kb, rate: 1}}\n" +
      "  b: {roles: [], limits: 5}\n  c: {roles: [], limits: {publish_rate: [1]}}\n",
      '2:41 users.a.limits.publish_rate "none" cannot be none: 0 is not "unbounded"',
      '2:62 users.a.limits.publish_bytes "1kb" is not a size; write one whole number of bytes',
      "2:67 users.a.limits.rate is not a key here; the keys are publish_rate, publish_bytes",
      "3:26 users.b.limits is a text; write publish_rate: and publish_bytes:",
      "4:41 users.c.limits.publish_rate is a list; write a figure",
    ],
    "patterns that tie": [
      'users:\n  "a*": []\n  "*a": []\n  b: []\n  "b*": []\n',
      '3:3 users.*a can match a name that "a*" at /etc/saguin/acl.yaml:2 matches too, and has as ma',
      '5:3 users.b* can match a name that "b" at /etc/saguin/acl.yaml:4 matches too, and has as many',
    ],
    "patterns that are none": [
      `users:\n  "": []\n  "a\\tb": []\n  c: {roles: [], client_ids: ["${"a".repeat(1_025)}*"]}\n`,
      "2:3 users. is an empty pattern and matches nobody; write a user name",
      "3:3 users.a\\tb holds a control character, which no user name has; write another pattern",
      `4:31 users.c.client_ids "${"a".repeat(120)}..." is longer than 1024 characters; write a sho`,
    ],
    "a user twice": [
      "users:\n  a: []\n  a: []\n",
      "3:3 users.a is written twice, first at line 2; keep",
    ],
    "what is no YAML": ["users: {\n", "2:1 is not YAML: "],
  };

for (const [what, [text, ...says]] of Object.entries(REFUSED_FILES)) {
  Deno.test(`02b 7.1 refused: ${what}`, () => {
    const found = aclFindings(text);
    assert.equal(found.length, says.length, found.join("\n"));
    for (const [i, said] of says.entries()) assert.equal(found[i].slice(0, said.length), said);
  });
}

Deno.test("02b 2 every finding of a file is told at once, by line", () => {
  const found = aclFindings(
    "roles:\n  r:\n    - {channel: nosuch, allow: [read]}\n    - {topic: x, allow: [reed]}\n" +
      "users:\n  a: [s]\n  b: {limits: {publish_rate: 0}}\n",
  );
  assert.deepEqual(found.map((finding) => finding.split(" ", 2).join(" ")), [
    "3:17 roles.r[1].channel",
    "4:26 roles.r[2].allow",
    "6:7 users.a",
    "7:3 users.b.roles",
    "7:30 users.b.limits.publish_rate",
  ]);
});

Deno.test("02b 1 the annotated ACL file is read", () => {
  const world = accepted(
    load(
      channels("readings: {type: append, filter: plant/+/readings/#}"),
      {},
      ALL_BUILT,
    ),
  );
  const { document } = acl(
    `roles:
  meter:
    - channel: readings
      filter: plant/+/readings/%u/#    # optional narrowing
      allow: [write]
    - topic: diag/%u/#
      allow: [write, read]
    - broker: features
      deny: [persistent, will, share, retained, qos2]
  duty:
    - broker: sessions
      allow: [disconnect]
users:
  "meter-*":
    roles: [meter]
    client_ids: "%u-*"
    limits: { publish_rate: 100, publish_bytes: 64KiB }
  night-desk: [duty]
`,
    world,
  );
  assert.deepEqual([...document.roles.keys()], ["meter", "duty"]);
  const [meter, desk] = document.entries;
  assert.equal(meter.pattern.text, "meter-*");
  assert.deepEqual(meter.clientIds, ["%u-*"]);
  assert.deepEqual(meter.limits, { messagesPerSecond: 100, bytesPerSecond: 65_536 });
  assert.deepEqual(meter.roles.map(({ name }) => name), ["meter"]);
  assert.deepEqual([desk.clientIds, desk.limits, desk.roles[0].name], [
    undefined,
    undefined,
    "duty",
  ]);
});

Deno.test("02b 19 limits with one key leave the other unbounded, and with none both", () => {
  const { document } = acl(
    "users:\n  a: {roles: [], limits: {publish_rate: 5}}\n  b: {roles: [], limits: {}}\n",
  );
  const [one, none] = document.entries.map(({ limits }) => limits);
  assert.deepEqual(one, { messagesPerSecond: 5, bytesPerSecond: undefined });
  assert.deepEqual(none, { messagesPerSecond: undefined, bytesPerSecond: undefined });
});

Deno.test("whatever bytes a file holds, reading it ends in findings or in a document", () => {
  const hostile = [
    Uint8Array.of(0xff, 0xfe),
    utf8("a: &x [*x]\nusers: *x\n"),
    utf8("users: " + "[".repeat(5_000)),
    utf8("users:\n  <<: {a: []}\n"),
    utf8("users: !!js/function x\n"),
    utf8("users: {a: []}\n---\nusers: {}\n"),
  ];
  for (const bytes of hostile) {
    const findings = new Findings();
    readAcl(bytes, ACL_FILE, PLANT, findings);
    assert.ok(!findings.empty);
  }
});
