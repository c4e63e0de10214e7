import * as access from "./buckets/access.ts";
import * as bucket from "./buckets/bucket.ts";
import { FIXED_SETTINGS, OBJECT_LOCKS } from "./buckets/fixed-settings.ts";
import { CORS, LIFECYCLE } from "./buckets/kept-settings.ts";
import * as listings from "./buckets/list-objects.ts";
import { copyObject } from "./copy/copy-object.ts";
import { type FormRequest, postObject } from "./forms/post-object.ts";
import { completeMultipartUpload } from "./multipart/complete-multipart-upload.ts";
import { listMultipartUploads } from "./multipart/list-multipart-uploads.ts";
import * as multipart from "./multipart/upload.ts";
import { uploadPartCopy } from "./multipart/upload-part-copy.ts";
import { deleteObject, deleteObjects } from "./objects/delete-objects.ts";
import { getObject, headObject } from "./objects/get-object.ts";
import { getObjectAttributes } from "./objects/get-object-attributes.ts";
import * as tagging from "./objects/object-tagging.ts";
import { putObject } from "./objects/put-object.ts";
import type { BucketRequest, ObjectRequest, Operation, ServiceRequest, UploadRequest } from "./operation.ts";

/** Every operation there is, by the level of its address and the name that detect.ts finds. */
export const SERVICE_OPERATIONS = {
  ListBuckets: bucket.listBuckets,
} satisfies Record<string, Operation<ServiceRequest>>;

export const BUCKET_OPERATIONS = {
  ...FIXED_SETTINGS,
  CreateBucket: bucket.createBucket,
  DeleteBucket: bucket.deleteBucket,
  DeleteBucketCors: CORS.remove,
  DeleteBucketLifecycle: LIFECYCLE.remove,
  DeleteBucketPolicy: access.deleteBucketPolicy,
  DeleteObjects: deleteObjects,
  GetBucketAcl: access.getBucketAcl,
  GetBucketCors: CORS.get,
  GetBucketLifecycleConfiguration: LIFECYCLE.get,
  GetBucketLocation: bucket.getBucketLocation,
  GetBucketPolicy: access.getBucketPolicy,
  GetBucketPolicyStatus: access.getBucketPolicyStatus,
  HeadBucket: bucket.headBucket,
  ListMultipartUploads: listMultipartUploads,
  ListObjects: listings.listObjects,
  ListObjectsV2: listings.listObjectsV2,
  ListObjectVersions: listings.listObjectVersions,
  PutBucketAcl: access.putBucketAcl,
  PutBucketCors: CORS.put,
  PutBucketLifecycleConfiguration: LIFECYCLE.put,
  PutBucketPolicy: access.putBucketPolicy,
} satisfies Record<string, Operation<BucketRequest>>;

export const OBJECT_OPERATIONS = {
  ...OBJECT_LOCKS,
  CopyObject: copyObject,
  CreateMultipartUpload: multipart.createMultipartUpload,
  DeleteObject: deleteObject,
  DeleteObjectTagging: tagging.deleteObjectTagging,
  GetObject: getObject,
  GetObjectAcl: access.getObjectAcl,
  GetObjectAttributes: getObjectAttributes,
  GetObjectTagging: tagging.getObjectTagging,
  HeadObject: headObject,
  PutObject: putObject,
  PutObjectAcl: access.putObjectAcl,
  PutObjectTagging: tagging.putObjectTagging,
} satisfies Record<string, Operation<ObjectRequest>>;

/** Operations on a multipart upload, which may be addressed with its key or without. */
export const UPLOAD_OPERATIONS = {
  AbortMultipartUpload: multipart.abortMultipartUpload,
  CompleteMultipartUpload: completeMultipartUpload,
  ListParts: multipart.listParts,
  UploadPart: multipart.uploadPart,
  UploadPartCopy: uploadPartCopy,
} satisfies Record<string, Operation<UploadRequest>>;

/** Operations whose request is a form, which is read as far as its file before they are called. */
export const FORM_OPERATIONS = {
  PostObject: postObject,
} satisfies Record<string, Operation<FormRequest>>;

export type ServiceOperationName = keyof typeof SERVICE_OPERATIONS;
export type BucketOperationName = keyof typeof BUCKET_OPERATIONS;
export type ObjectOperationName = keyof typeof OBJECT_OPERATIONS;
export type UploadOperationName = keyof typeof UPLOAD_OPERATIONS;
