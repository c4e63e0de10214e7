import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

const IDENTITY = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/">
<GetCallerIdentityResult><Account>000000000000</Account><UserId>tests</UserId><Arn>arn:aws:iam::000000000000:root</Arn>
</GetCallerIdentityResult></GetCallerIdentityResponse>`;

/** Stands for AWS's Security Token Service, which tests ask whose key they have. */
export async function startSts(): Promise<{ readonly endpoint: string; stop(): Promise<void> }> {
  const server = createServer((request, response) => {
    request.resume();
    response.setHeader("content-type", "text/xml").end(IDENTITY);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    endpoint: `http://127.0.0.1:${port}`,
    stop: () => new Promise((resolve) => server.close(() => resolve())),
  };
}
