import { describe, expect, test } from "vitest";
import { digestIn, parseImage, ToldImages } from "../../../../runner/executors/container/images/reference.ts";

const HEX = "0123456789abcdef".repeat(4);
const DIGEST = `sha256:${HEX}`;

describe("the name of an image", () => {
  test.each([
    ["busybox", "docker.io", "library/busybox", "busybox:latest", "docker.io/library/busybox:latest"],
    ["busybox:1.36", "docker.io", "library/busybox", "busybox:1.36", "docker.io/library/busybox:1.36"],
    ["team/tool", "docker.io", "team/tool", "team/tool:latest", "docker.io/team/tool:latest"],
    [
      "docker.io/busybox",
      "docker.io",
      "library/busybox",
      "docker.io/busybox:latest",
      "docker.io/library/busybox:latest",
    ],
    ["index.docker.io/a/b:1", "docker.io", "a/b", "index.docker.io/a/b:1", "docker.io/a/b:1"],
    ["localhost/x", "localhost", "x", "localhost/x:latest", "localhost/x:latest"],
    ["reg:5000/x", "reg:5000", "x", "reg:5000/x:latest", "reg:5000/x:latest"],
    [
      "127.0.0.1:5000/a/b/c:v1",
      "127.0.0.1:5000",
      "a/b/c",
      "127.0.0.1:5000/a/b/c:v1",
      "127.0.0.1:5000/a/b/c:v1",
    ],
    ["[::1]:5000/x", "[::1]:5000", "x", "[::1]:5000/x:latest", "[::1]:5000/x:latest"],
    ["ghcr.io/o/x__y-z.w", "ghcr.io", "o/x__y-z.w", "ghcr.io/o/x__y-z.w:latest", "ghcr.io/o/x__y-z.w:latest"],
    [
      `busybox@${DIGEST}`,
      "docker.io",
      "library/busybox",
      `busybox@${DIGEST}`,
      `docker.io/library/busybox@${DIGEST}`,
    ],
    // Podman takes no name with both, and the digest decides.
    [`r.io/x:7@${DIGEST}`, "r.io", "x", `r.io/x@${DIGEST}`, `r.io/x@${DIGEST}`],
  ])("%s is at %s as %s", (text, registry, repository, short, full) => {
    expect(parseImage(text)).toEqual({ ok: true, image: { registry, repository, short, full } });
  });

  test.each([DIGEST, HEX])("may be an id: %s", (text) => {
    expect(parseImage(text)).toEqual({ ok: true, image: { id: DIGEST } });
  });

  test.each([
    ["", "it has no name"],
    ["r.io/", "it has no name"],
    [":1", "it has no name"],
    ["BusyBox", "its name must be in lower case"],
    ["r.io/Team/x", "its name must be in lower case"],
    ["a b", "must be made of"],
    ["a//b", "must be made of"],
    ["/a", "must be made of"],
    ["a:", '"" is no tag'],
    ["a:b c", '"b c" is no tag'],
    [`a:${"x".repeat(129)}`, "is no tag"],
    ["r.io:port/x", '"r.io:port" is no registry'],
    ["http://r.io/x", "is no registry"],
    ["a@latest", "must stand a digest"],
    [`a@${DIGEST}@${DIGEST}`, "must stand a digest"],
    ["a".repeat(300), "longer than 255"],
  ])("%s is none, and it says why", (text, reason) => {
    const parsed = parseImage(text);
    expect(!parsed.ok && parsed.reason).toContain(reason);
  });
});

describe("the name by which lineage tells of an image", () => {
  const other = `sha256:${"f".repeat(64)}`;

  test.each([
    ["busybox:1.36", [`busybox@${DIGEST}`], `docker.io/library/busybox@${DIGEST}`],
    // Podman knows an image by every repository that has it.
    ["r.io/x:7", [`q.io/x@${other}`, `r.io/x@${DIGEST}`], `r.io/x@${DIGEST}`],
    ["r.io/x", [`r.io/x@${other}`, `r.io/x@${DIGEST}`], `r.io/x@${DIGEST}`],
    ["r.io/x", [`r.io/x@${DIGEST}`, `r.io/x@${other}`], `r.io/x@${DIGEST}`],
    [`r.io/x@${DIGEST}`, [`r.io/x@${DIGEST}`], `r.io/x@${DIGEST}`],
  ])("is, of %s, its digest in that registry", (image, digests, name) => {
    expect(digestIn(digests, image)).toBe(name);
  });

  test.each([
    ["busybox", []],
    ["r.io/x", [`q.io/x@${DIGEST}`, `r.io/y@${DIGEST}`, "<none>@<none>"]],
    [DIGEST, [`r.io/x@${DIGEST}`]],
  ])("is none of %s that the registry has not, so that the id is told", (image, digests) => {
    expect(digestIn(digests, image)).toBeUndefined();
  });

  test("is asked for once for each image, and is the id as long as the engine does not answer", async () => {
    let asked = 0;
    const answers = [
      () => Promise.reject(new Error("away")),
      () => Promise.resolve({ RepoDigests: [`r.io/x@${DIGEST}`] }),
    ];
    const engine = { docker: { getImage: () => ({ inspect: () => answers[asked++]?.() }) } };
    const told = new ToldImages(engine as unknown as ConstructorParameters<typeof ToldImages>[0]);
    const names: string[] = [];
    for (let times = 0; times < 3; times++) names.push(await told.nameOf({ image: "r.io/x", id: other }));
    expect(names).toEqual([other, `r.io/x@${DIGEST}`, `r.io/x@${DIGEST}`]);
    expect(asked).toBe(2);
  });
});
