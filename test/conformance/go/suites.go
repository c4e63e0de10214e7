// Package conformance names the modules whose own tests run as they are, so that go.mod keeps their versions.
package conformance

import (
	_ "github.com/aws/aws-sdk-go-v2/feature/s3/manager"
	_ "github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/s3-aws"
)
