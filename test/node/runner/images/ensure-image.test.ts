// @module-tag rest
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { ensureImage } from "../../../../runner/executors/container/images/ensure-image.ts";
import { PrivateImages } from "../../../../runner/executors/container/images/private-images.ts";
import { type NamedSecret, NodeCondition } from "../../../../runner/executors/executor.ts";
import { findEngines, type Published, TEST_REGISTRY } from "../../../support/engines.ts";
import { freePort } from "../../../support/ports.ts";
import { removeScratch, scratchFolder } from "../../../support/scratch.ts";

const signal = new AbortController().signal;
const registry = TEST_REGISTRY ?? { address: "registry.invalid", username: "", password: "" };
const WRONG = "not-the-password";

function pullSecret(name: string, { password = registry.password, address = registry.address } = {}) {
  const auth = Buffer.from(`${registry.username}:${password}`).toString("base64");
  const config = JSON.stringify({ auths: { [address]: { auth } } });
  return { name, secret: new Map([[".dockerconfigjson", Buffer.from(config)]]) };
}

/** The message if no image could be had. */
async function trouble(answer: Promise<string>): Promise<string> {
  const error = await answer.catch((error: unknown) => error);
  expect(error).toBeInstanceOf(NodeCondition);
  return (error as NodeCondition).message;
}

for (const { name, engine } of await findEngines()) {
  describe.skipIf(!engine)(`images of ${name}`, () => {
    if (!engine) return void test(`${name}: needs an engine that answers, and a static busybox`, () => {});
    /** What the node keeps beside the images. */
    let dataDir: string;
    let privates: PrivateImages;
    beforeEach(() => {
      dataDir = scratchFolder();
      privates = new PrivateImages(dataDir);
    });
    afterEach(() => removeScratch(dataDir));
    const ensure = (wanted: { image: string; pullSecrets: NamedSecret[]; signal?: AbortSignal }) =>
      ensureImage({ kind: name, patient: engine.client }, { privates, signal, ...wanted });

    test(`${name}: one that the engine has is taken as it is, with or without a tag, or by its id`, async () => {
      const image = await engine.image("busybox");
      const id = await ensure({ image, pullSecrets: [] });
      expect(id).toMatch(/^sha256:[0-9a-f]{64}$/);
      for (const other of [image.replace(":latest", ""), id, id.replace("sha256:", "")]) {
        expect(await ensure({ image: other, pullSecrets: [] }), other).toBe(id);
      }
    });

    if (name === "podman") {
      test(`${name}: one that was made on the node is found without "localhost/"`, async () => {
        const image = await engine.image("busybox");
        const id = await ensure({ image, pullSecrets: [] });
        const short = image.replace("localhost/", "");
        expect(await ensure({ image: short, pullSecrets: [] })).toBe(id);
      });
    }

    test(`${name}: what is no name, or an id that is not there, is said to be so`, async () => {
      const bad = ensure({ image: "No Image\n", pullSecrets: [] });
      expect(await trouble(bad)).toBe('"No Image" is no image: its name must be in lower case');
      const id = `sha256:${"0".repeat(64)}`;
      expect(await trouble(ensure({ image: id, pullSecrets: [] }))).toBe(
        `image "${id}" is not on this node, and by its id it can't be pulled`,
      );
    });

    test(`${name}: a registry that is away is named, in words that say so`, async () => {
      const image = `127.0.0.1:${await freePort()}/x:1`;
      const told = await trouble(ensure({ image, pullSecrets: [] }));
      expect(told).toContain(`image "${image}" can't be pulled without credentials: `);
      expect(told).toContain("connection refused");
    });

    test(`${name}: nothing is begun for a signal that is aborted already`, async () => {
      const why = new Error("enough");
      const answer = ensure({
        image: "r.invalid/x",
        pullSecrets: [],
        signal: AbortSignal.abort(why),
      });
      await expect(answer).rejects.toBe(why);
    });

    describe.skipIf(!TEST_REGISTRY)("in a registry with a password", () => {
      let published: Published;
      let image: string;
      beforeAll(async () => {
        if (!TEST_REGISTRY) return;
        published = await engine.publish("busybox", { registry, tag: "1" });
        image = `${published.repo}:1`;
      });
      beforeEach(() => engine.forget(image));
      afterAll(() => engine.forget(image));

      test(`${name}, registry: refuse without credentials, in the registry's words`, async () => {
        const told = await trouble(ensure({ image, pullSecrets: [] }));
        expect(told).toContain(`image "${image}" can't be pulled without credentials: `);
        expect(told).toMatch(/unauthorized|no basic auth credentials/);
        expect(await engine.has(image)).toBe(false);
      });

      const REFUSED =
        "is on this node, pulled with another pipeline's key, and its registry does not give it to this one";

      test(`${name}, registry: are pulled with a pull secret, and then are there for those whose secret opens them`, async () => {
        const id = await ensure({ image, pullSecrets: [pullSecret("good")] });
        expect(await engine.has(image)).toBe(true);
        expect(await ensure({ image, pullSecrets: [pullSecret("the same")] })).toBe(id);
        // A digest is no way round, nor is an id, unless the image has a name that is open.
        const local = (await engine.image("busybox")).replace(":latest", "");
        expect(await ensure({ image: id, pullSecrets: [] })).toBe(id);
        await engine.client.getImage(`${local}:latest`).remove();
        for (const wanted of [image, id, `${published.repo}@${published.digest}`]) {
          const told = await trouble(ensure({ image: wanted, pullSecrets: [] }));
          expect(told).toContain(REFUSED);
          expect(told).toMatch(/without credentials: .*(unauthorized|no basic auth credentials)/);
        }
        await engine.client.getImage(id).tag({ repo: local, tag: "latest" });
        const pullSecrets = [pullSecret("bad", { password: WRONG })];
        const told = await trouble(ensure({ image, pullSecrets }));
        expect(told).toContain(REFUSED);
        expect(told).toContain('with the credentials of secret "bad": ');
        expect(told).not.toContain(WRONG);
      });

      test(`${name}, registry: stay closed over a restart of the agent, and open again to a key that is shown`, async () => {
        const id = await ensure({ image, pullSecrets: [pullSecret("good")] });
        privates = new PrivateImages(dataDir);
        expect(await trouble(ensure({ image, pullSecrets: [] }))).toContain(REFUSED);
        expect(await ensure({ image, pullSecrets: [pullSecret("good")] })).toBe(id);
      });

      test(`${name}, registry: are there for all if people put them on the node`, async () => {
        const { address: serveraddress, username, password } = registry;
        const authconfig = { serveraddress, username, password };
        for await (const _ of await engine.client.createImage(authconfig, { fromImage: image }));
        expect(await ensure({ image, pullSecrets: [] })).toMatch(/^sha256:/);
      });

      test(`${name}, registry: refuse a wrong password, naming its secret and not what is in it`, async () => {
        const pullSecrets = [pullSecret("bad", { password: WRONG })];
        const told = await trouble(ensure({ image, pullSecrets }));
        expect(told).toContain('with the credentials of secret "bad": ');
        expect(told).toContain("without credentials: ");
        expect(told).toContain("unauthorized");
        expect(told).not.toContain(WRONG);
        expect(told).not.toContain(btoa(`${registry.username}:${WRONG}`));
      });

      test(`${name}, registry: are pulled with the credentials that are good, after others that are not`, async () => {
        const pullSecrets = [
          { name: "empty", secret: new Map() },
          pullSecret("other", { address: "other.io" }),
          pullSecret("bad", { password: WRONG }),
          pullSecret("good"),
        ];
        expect(await ensure({ image, pullSecrets })).toMatch(/^sha256:/);
      });

      test(`${name}, registry: a secret that is malformed is named where the pull fails`, async () => {
        const pullSecrets = [{ name: "empty", secret: new Map() }];
        const told = await trouble(ensure({ image, pullSecrets }));
        expect(told).toContain('secret "empty" has no key ".dockerconfigjson"');
      });

      test(`${name}, registry: say that a tag is not there, beside the refusal without credentials`, async () => {
        const missing = `${published.repo}:no-such-tag`;
        const told = await trouble(ensure({ image: missing, pullSecrets: [pullSecret("good")] }));
        expect(told).toContain(`image "${missing}" can't be pulled with the credentials of secret "good": `);
        expect(told).toMatch(/manifest unknown|not found/);
      });

      test(`${name}, registry: are pulled by digest, with a tag beside it or without`, async () => {
        const { repo, digest } = published;
        for (const byDigest of [`${repo}@${digest}`, `${repo}:any@${digest}`]) {
          const id = await ensure({
            image: byDigest,
            pullSecrets: [pullSecret("good")],
          });
          expect(await ensure({ image: byDigest, pullSecrets: [pullSecret("good")] })).toBe(id);
          await engine.forget(id);
        }
      });

      test(`${name}, registry: are not taken for a digest that is not theirs`, async () => {
        const other = `${published.repo}@sha256:${"0".repeat(64)}`;
        const told = await trouble(ensure({ image: other, pullSecrets: [pullSecret("good")] }));
        expect(told).toMatch(/manifest unknown|not found/);
        expect(await engine.has(other)).toBe(false);
      });

      test(`${name}, registry: a caller who leaves does not stop the pull for the one who stays`, async () => {
        const leaves = new AbortController();
        const request = { image, pullSecrets: [pullSecret("good")] };
        const left = ensure({ ...request, signal: leaves.signal });
        const stays = ensure(request);
        leaves.abort(new Error("enough"));
        await expect(left).rejects.toThrow("enough");
        expect(await stays).toMatch(/^sha256:/);
      });
    });

    afterAll(() => engine.close());
  });
}
