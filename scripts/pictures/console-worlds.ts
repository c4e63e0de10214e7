import { z } from "zod";
import { Control } from "../../test/support/control.ts";
import type { DevServer } from "../../test/support/dev-server.ts";
import { startRunner } from "../../test/support/dev-server.ts";
import { eventually } from "../../test/support/eventually.ts";
import { signedExchange } from "../../test/support/http.ts";
import type { Started } from "../../test/support/processes.ts";
import { S3 } from "../../test/support/s3.ts";
import type { World } from "./console-pages.ts";

/** Nodes of other machines say so often that they live. */
const BEAT_MS = 2000;
/** So many commits, each of which makes jobs. */
const COMMITS = 14;
const DATUMS_OF_THE_LONG_JOB = 60;

const NONE = { running: "", done: "", failed: "" };

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
    script: 'for f in /pfs/invoices/*; do wc -w < $f > "/pfs/out/$(basename $f).csv"; done',
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
    return { state: "empty", jobs: NONE, repo: "", file: "", pipeline: "" };
  }

  async full(): Promise<World> {
    for (const node of ["edge-1", "edge-2"]) {
      this.#runners.push(startRunner(this.#server, { node, options: ["--max-running", "4"] }));
    }
    for (const repo of ["photos", "invoices", "film"]) await this.#s3.createBucket(`master.${repo}`);
    for (const spec of PIPELINES) await this.#create(spec);
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
    await this.#makeKeys();
    await this.#setRules();
    const [running] = await eventually(
      "datums of transcode run",
      async () => {
        const jobs = await this.#control.jobs("transcode");
        return (jobs[0]?.datums.processed ?? 0) > 4 && jobs;
      },
      { withinMs: 120_000 },
    );
    const done = (await this.#control.jobs("thumbnails")).at(-1);
    this.#full = {
      state: "full",
      jobs: { ...NONE, running: running?.id ?? "", done: done?.id ?? "" },
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
    await this.#s3.put("master.photos", "1014-from-camera-2.jpg", "torn in the middle of its upload");
    await this.#s3.put("master.photos", "1015-from-camera-2.jpg", "torn as well, and larger ".repeat(9));
    await this.#settled("thumbnails");
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

  /** No job of the pipeline is under way any more. */
  async #settled(pipeline: string): Promise<void> {
    await eventually(
      `the jobs of ${pipeline} have ended`,
      async () => (await this.#control.jobs(pipeline)).every(({ finishedAt }) => finishedAt !== null),
      { withinMs: 180_000 },
    );
  }

  async #setRules(): Promise<void> {
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

  async #makeKeys(): Promise<void> {
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
      const key = await this.#control.call("POST", "/keys", {
        body,
        answers: z.object({ id: z.string(), secret: z.string(), level: z.string() }),
      });
      if (key.level === "runner" || body.description === undefined) continue;
      await new S3({ ...this.#server, accessKeyId: key.id, secretAccessKey: key.secret }).buckets();
    }
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
    for (const body of [
      { node: "gpu-1", executor: "docker", capacity: 32, bounds: { running: 128, workers: 256 }, work },
      { node: "edge-5", executor: "podman", capacity: 8, bounds: { running: 32, workers: 256 }, work: [] },
    ]) {
      if (body.node === "edge-5" && this.#beats) continue;
      await this.#control.call("POST", "/runner/heartbeat", { body, answers: z.unknown() });
    }
  }
}
