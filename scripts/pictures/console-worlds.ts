import { parse } from "yaml";
import { z } from "zod";
import { KeyCreated } from "../../protocol/keys.ts";
import { Control } from "../../test/support/control.ts";
import type { DevServer } from "../../test/support/dev-server.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import { eventually } from "../../test/support/eventually.ts";
import { signedExchange } from "../../test/support/http.ts";
import type { Door } from "../../test/support/keys.ts";
import type { Started } from "../../test/support/processes.ts";
import { S3 } from "../../test/support/s3.ts";
import { TRIPS, TRIPS_FILES, TRIPS_TAG, tripStatsText } from "./console-files.ts";
import type { World } from "./console-pages.ts";

/** Nodes of other machines say so often that they live. */
const BEAT_MS = 2000;
const GIB = 1024 ** 3;
/** So many commits, each of which makes jobs. */
const COMMITS = 14;
const DATUMS_OF_THE_LONG_JOB = 60;

const NONE = { running: "", waiting: "", done: "", failed: "" };

interface Spec {
  readonly name: string;
  readonly inputs: readonly { readonly repo: string; readonly glob: string }[];
  readonly script: string;
  readonly more?: object;
}

/** Each writes what it makes of each input, in a time that differs from file to file. */
const PIPELINES: readonly Spec[] = [
  {
    name: "thumbnails",
    inputs: [{ repo: "photos", glob: "/*" }],
    script: `for f in /pfs/photos/*; do
      echo "reading $(basename $f), $(wc -c < $f) bytes"; sleep 0.$(( $(wc -c < $f) % 7 ))
      grep -q blank $f && { echo "thumbnails: no pixels" >&2; exit 4; }
      grep -q torn $f && { echo "decode: expected marker 0xFFD9, found end of file" >&2; echo "thumbnails: no end of image" >&2; exit 3; }
      head -c 40 $f > /pfs/out/$(basename $f).thumb; done`,
    more: { datumTries: 1 },
  },
  {
    name: "exif",
    inputs: [{ repo: "photos", glob: "/*" }],
    script: 'for f in /pfs/photos/*; do wc -c < $f > "/pfs/out/$(basename $f).json"; done',
  },
  {
    name: "contact-sheet",
    inputs: [{ repo: "thumbnails", glob: "/" }],
    script: "sleep 0.2; cat /pfs/thumbnails/* > /pfs/out/sheet.html",
  },
  { name: "album-index", inputs: [{ repo: "exif", glob: "/" }], script: "ls /pfs/exif > /pfs/out/index.txt" },
  {
    name: "parse-invoices",
    inputs: [{ repo: "invoices", glob: "/*" }],
    script:
      'for f in /pfs/invoices/*; do grep -q scan $f && { echo "no text in a scan" >&2; exit 2; }; wc -w < $f > "/pfs/out/$(basename $f).csv"; done',
    more: { datumTries: 1 },
  },
  {
    name: "monthly-totals",
    inputs: [{ repo: "parse-invoices", glob: "/" }],
    script: "cat /pfs/parse-invoices/* > /pfs/out/totals.csv",
  },
];

/** Fills a gateway step by step, as its users would. `empty`, then `full`, then `failing`. */
export class Worlds {
  readonly #server: DevServer;
  readonly #control: Control;
  readonly #s3: S3;
  readonly #runners: Started[] = [];
  #beats: ReturnType<typeof setInterval> | undefined;
  #full: World | undefined;

  constructor(server: DevServer) {
    this.#server = server;
    this.#control = new Control(server);
    this.#s3 = new S3(server);
  }

  empty(): World {
    return { state: "empty", door: this.#server, jobs: NONE, repo: "", file: "", pipeline: "" };
  }

  async full(): Promise<World> {
    for (const node of ["edge-1", "edge-2"]) {
      this.#runners.push(startRunner(this.#server, { node, options: ["--max-running", "4"] }));
    }
    for (const repo of ["photos", "invoices", "film"]) await this.#s3.createBucket(`master.${repo}`);
    for (const spec of PIPELINES) await this.#create(spec);
    await this.#fillTrips();
    for (let n = 0; n < COMMITS; n++) {
      await this.#s3.put("master.photos", `${1000 + n}.jpg`, `picture ${n} `.repeat(1 + ((n * 7) % 11)));
      if (n % 3 === 0)
        await this.#s3.put("master.invoices", `2026-${10 + (n % 3)}-${n}.txt`, "one two three");
    }
    await Promise.all(
      ["thumbnails", "exif", "contact-sheet", "album-index", "monthly-totals"].map((name) =>
        this.#settled(name),
      ),
    );
    // It goes on while the pictures are taken.
    for (let n = 0; n < DATUMS_OF_THE_LONG_JOB; n++)
      await this.#s3.put("master.film", `scene-${100 + n}.mov`, `${n}`);
    await this.#create({
      name: "transcode",
      inputs: [{ repo: "film", glob: "/*" }],
      script:
        'for f in /pfs/film/*; do echo "frame 1 of 240"; sleep 9; echo "frame 240 of 240"; cp $f /pfs/out/; done',
    });
    await this.#create({
      name: "train-model",
      inputs: [{ repo: "photos", glob: "/" }],
      script: "true",
      more: {
        transform: { image: "pytorch/pytorch:2.9", cmd: ["python", "train.py"], container: "required" },
      },
    });
    const door = await this.#makeKeys();
    await this.#setRules(door);
    const [running] = await eventually(
      "datums of transcode run",
      async () => {
        const jobs = await this.#control.jobs("transcode");
        return (jobs[0]?.datums.processed ?? 0) > 4 && jobs;
      },
      { withinMs: 120_000 },
    );
    const done = (await this.#control.jobs("thumbnails")).at(-1);
    const [waiting] = await this.#control.jobs("train-model");
    this.#full = {
      ...{ state: "full", door },
      jobs: { ...NONE, running: running?.id ?? "", waiting: waiting?.id ?? "", done: done?.id ?? "" },
      ...{ repo: "photos", file: "1003.jpg", pipeline: "thumbnails" },
    };
    return this.#full;
  }

  /** Nodes in trouble, datums that fail, a pipeline that is stopped. Needs `full` before. */
  async failing(): Promise<World> {
    const full = this.#full;
    if (!full) throw new Error("a gateway fails only after it was full");
    await this.#beatNodes();
    this.#beats = setInterval(() => void this.#beatNodes(), BEAT_MS);
    for (const [method, path] of [
      ["POST", "/nodes/edge-5/drain"],
      ["DELETE", "/runner/heartbeat?node=edge-5"],
      ["POST", "/nodes/edge-5/resume"],
      ["POST", "/nodes/edge-2/drain"],
      ["POST", "/pipelines/monthly-totals/stop"],
    ] as const)
      await this.#control.call(method, path, { answers: z.unknown() });
    for (let n = 1014; n < 1020; n++)
      await this.#s3.put(
        "master.photos",
        `${n}-from-camera-2.jpg`,
        `torn in the middle of upload ${n} `.repeat(n % 3),
      );
    await this.#s3.put("master.photos", "1020-from-camera-2.jpg", "blank");
    await this.#s3.put("master.invoices", "2026-12-1.txt", "scan");
    await this.#settled("parse-invoices");
    await this.#s3.put("master.invoices", "2026-12-1.txt", "one two");
    await Promise.all(["thumbnails", "parse-invoices"].map((name) => this.#settled(name)));
    const failed = (await this.#control.jobs("thumbnails")).filter(({ state }) => state === "failure").at(-1);
    return { ...full, state: "failing", jobs: { ...full.jobs, failed: failed?.id ?? "" } };
  }

  async stop(): Promise<void> {
    clearInterval(this.#beats);
    await Promise.all(this.#runners.map((runner) => runner.stop()));
  }

  async #create({ name, inputs, script, more }: Spec): Promise<void> {
    await this.#control.createPipeline({
      pipeline: { name },
      transform: { image: "busybox", cmd: ["sh", "-c", script] },
      inputs: inputs.map(({ repo, glob }) => ({ repo: { name: repo }, glob })),
      ...more,
    });
  }

  /** A repo with files of many kinds, what changed in it since its tag, and a pipeline whose specification was written anew. */
  async #fillTrips(): Promise<void> {
    const bucket = `master.${TRIPS}`;
    await this.#s3.createBucket(bucket);
    for (const [path, body] of Object.entries(TRIPS_FILES.before)) await this.#s3.put(bucket, path, body);
    await this.#s3.delete(bucket, "scratch/old.txt");
    const commit = await this.#s3.headCommit(bucket);
    const tag = `/repos/${TRIPS}/branches/master/tags/${TRIPS_TAG}`;
    await this.#control.call("PUT", tag, { body: { commit }, answers: z.unknown() });
    for (const [path, body] of Object.entries(TRIPS_FILES.after)) await this.#s3.put(bucket, path, body);
    const texts = [
      tripStatsText({ workers: 1, isRounded: false }),
      tripStatsText({ workers: 1, isRounded: true }),
      tripStatsText({ workers: 2, isRounded: true }),
    ];
    for (const [index, text] of texts.entries()) {
      const path = `/pipelines?text=true${index === 0 ? "" : "&update=true"}`;
      await this.#control.call("POST", path, { body: { spec: parse(text), text }, answers: z.unknown() });
    }
  }

  /** No job of the pipeline is under way any more. */
  async #settled(pipeline: string): Promise<void> {
    await eventually(
      `the jobs of ${pipeline} have ended`,
      async () => (await this.#control.jobs(pipeline)).every(({ finishedAt }) => finishedAt !== null),
      { withinMs: 180_000 },
    );
  }

  async #setRules(owner: Door): Promise<void> {
    const settings = [
      ["PUT", "/repos/film/branches/master/public", { public: true }],
      ["PUT", `/repos/${TRIPS}/branches/master/writer`, { writer: { key: owner.accessKeyId } }],
    ] as const;
    for (const [method, path, body] of settings)
      await this.#control.call(method, path, { body, answers: z.unknown() });
    for (const [query, body] of [
      [
        "lifecycle",
        `<LifecycleConfiguration>
          <Rule><ID>scratch</ID><Status>Enabled</Status><Filter><Prefix>scratch/</Prefix></Filter><Expiration><Days>7</Days></Expiration></Rule>
          <Rule><ID>uploads</ID><Status>Enabled</Status><Filter/><AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation></AbortIncompleteMultipartUpload></Rule>
        </LifecycleConfiguration>`,
      ],
      [
        "cors",
        `<CORSConfiguration><CORSRule><AllowedOrigin>https://gallery.example.com</AllowedOrigin>
          <AllowedMethod>GET</AllowedMethod><ExposeHeader>etag</ExposeHeader><MaxAgeSeconds>3600</MaxAgeSeconds></CORSRule></CORSConfiguration>`,
      ],
    ] as const)
      await signedExchange(this.#server, { method: "PUT", target: `/master.photos?${query}=`, body });
  }

  /** Answers the one that its owner works with. */
  async #makeKeys(): Promise<Door> {
    for (const body of [
      { level: "write", repos: ["photos"], description: "camera upload, hall 2" },
      { level: "write", repos: ["photos", "film"], description: "camera upload, hall 3" },
      { level: "read", repos: null, description: "dashboard" },
      {
        level: "admin",
        repos: ["invoices", "parse-invoices", "monthly-totals"],
        pipelines: true,
        description: "finance",
      },
      { level: "runner", description: "runners in the basement" },
      { level: "read", repos: ["contact-sheet"] },
    ]) {
      const door = await this.#makeKey(body);
      if (body.level !== "runner" && body.description !== undefined) await new S3(door).buckets();
    }
    return await this.#makeKey({
      level: "admin",
      repos: null,
      pipelines: true,
      description: "Maria, operations",
    });
  }

  async #makeKey(body: object): Promise<Door> {
    const { id, secret } = await this.#control.call("POST", "/keys", { body, answers: KeyCreated });
    return { endpoint: this.#server.endpoint, accessKeyId: id, secretAccessKey: secret };
  }

  /** What runners of other machines would tell. */
  async #beatNodes(): Promise<void> {
    const work = [
      {
        pipeline: "train-model",
        workers: 1,
        running: 0,
        trouble: "pull access denied for pytorch/pytorch:2.9: unauthorized",
      },
      { pipeline: "transcode", workers: 2, running: 2 },
    ];
    const about = {
      version: "0.1.0",
      disk: { freeBytes: 212 * GIB, totalBytes: 960 * GIB },
      cache: { usedBytes: 41 * GIB, maxBytes: 64 * GIB },
    };
    for (const body of [
      {
        node: "gpu-1",
        executor: "docker",
        capacity: 32,
        bounds: { running: 128, workers: 256 },
        work,
        about,
      },
      { node: "edge-5", executor: "podman", capacity: 8, bounds: { running: 32, workers: 256 }, work: [] },
    ]) {
      if (body.node === "edge-5" && this.#beats) continue;
      await this.#control.call("POST", "/runner/heartbeat", { body, answers: z.unknown() });
    }
  }
}
