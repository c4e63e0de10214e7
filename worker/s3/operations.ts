import type { BucketOperationName, ObjectOperationName, ServiceOperationName } from "./detect.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest } from "./operation.ts";
import { createBucket } from "./ops/create-bucket.ts";
import { deleteBucket } from "./ops/delete-bucket.ts";
import { deleteObject } from "./ops/delete-object.ts";
import { deleteObjects } from "./ops/delete-objects.ts";
import { getBucketLocation } from "./ops/get-bucket-location.ts";
import { getBucketVersioning } from "./ops/get-bucket-versioning.ts";
import { getObject } from "./ops/get-object.ts";
import { headBucket } from "./ops/head-bucket.ts";
import { headObject } from "./ops/head-object.ts";
import { listBuckets } from "./ops/list-buckets.ts";
import { listObjects } from "./ops/list-objects.ts";
import { listObjectsV2 } from "./ops/list-objects-v2.ts";
import { putObject } from "./ops/put-object.ts";

/** Every operation there is, by the level of its address and the name that detect.ts finds. */
export const SERVICE_OPERATIONS: Record<ServiceOperationName, Operation<ServiceRequest>> = {
  ListBuckets: listBuckets,
};

export const BUCKET_OPERATIONS: Record<BucketOperationName, Operation<BucketRequest>> = {
  CreateBucket: createBucket,
  DeleteBucket: deleteBucket,
  DeleteObjects: deleteObjects,
  GetBucketLocation: getBucketLocation,
  GetBucketVersioning: getBucketVersioning,
  HeadBucket: headBucket,
  ListObjects: listObjects,
  ListObjectsV2: listObjectsV2,
};

export const OBJECT_OPERATIONS: Record<ObjectOperationName, Operation<ObjectRequest>> = {
  DeleteObject: deleteObject,
  GetObject: getObject,
  HeadObject: headObject,
  PutObject: putObject,
};
