/** 06 section 4: point reads, over the wire. */
import assert from "node:assert/strict";
import { nothingMore, published } from "../support/clients.ts";
import { rules, text } from "../support/house.ts";
import { refused, request } from "../support/requests.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: jobs/#
`;
const GET = "$saguin/kv/get";

rules("06 section 4: kv/get", { channels: CHANNELS, limits: "max_topic_levels: 4" }, {
  "06 4 the value, from publishers of both protocols; empty when there is none": async (house) => {
    using client = await house.client({ clientId: "4 reader" });
    using old = await house.client({ level: 4, clientId: "4 writer" });
    const value = async (key: string) => {
      const { reply, code } = await request(client, GET, key);
      assert.equal(code, 0);
      assert.equal(new TextDecoder().decode(reply!.properties.correlationData), key);
      return text(reply!);
    };
    assert.equal(await value("values/4"), "");
    await published(old, "values/4", "set");
    assert.equal(await value("values/4"), "set");
    await published(client, "values/4", "set again");
    assert.equal(await value("values/4"), "set again");
    await published(old, "values/4", "");
    assert.equal(await value("values/4"), "");
  },

  "06 4 whoever asks becomes no subscriber": async (house) => {
    using client = await house.client({ clientId: "4 asks" });
    using writer = await house.client({ clientId: "4 changes" });
    await request(client, GET, "values/4 asks");
    await published(writer, "values/4 asks", "changed");
    await nothingMore(client);
  },

  "06 4 a key that cannot be read says why on its PUBACK": async (house) => {
    using client = await house.client({ clientId: "4 refused" });
    assert.equal((await refused(client, GET, "")).code, 0x83);
    assert.equal((await refused(client, GET, "values/x", {})).code, 0x83);
    const cases: [string, RegExp][] = [
      ["nobody/owns", /no channel/],
      ["log/x", /log.*append/],
      ["jobs/x", /jobs.*queue/],
      ["values/+", /wildcard|\+/],
      ["values/#", /wildcard|#/],
      ["$saguin/kv/get", /\$/],
      ["values/" + "x".repeat(2_000), /max_topic_length/],
      ["values/1/2/3/4", /max_topic_levels/],
    ];
    for (const [key, says] of cases) {
      const { code, reason } = await refused(client, GET, key);
      assert.equal(code, 0x90, key);
      assert.match(reason, says, key);
    }
  },
});
