// Package thanos holds the acceptance test of thanos' object stores to its store of S3, with the gateway behind it.
package thanos

import (
	"net/url"
	"os"
	"testing"

	"github.com/thanos-io/objstore"
	"github.com/thanos-io/objstore/providers/s3"
)

func TestAcceptance(t *testing.T) {
	// As the project's own tests have it: as it is, and below a prefix.
	t.Run("bucket", func(t *testing.T) { objstore.AcceptanceTest(t, newBucket(t, configuration(t))) })
	t.Run("prefix", func(t *testing.T) {
		objstore.AcceptanceTest(t, objstore.NewPrefixedBucket(newBucket(t, configuration(t)), "some_prefix"))
	})
}

func TestAcceptanceByListsOfVersion1(t *testing.T) {
	asked := configuration(t)
	asked.ListObjectsVersion = "v1"
	objstore.AcceptanceTest(t, newBucket(t, asked))
}

func TestAcceptanceWithContentMD5(t *testing.T) {
	asked := configuration(t)
	asked.SendContentMd5 = true
	objstore.AcceptanceTest(t, newBucket(t, asked))
}

func configuration(t *testing.T) s3.Config {
	t.Helper()
	endpoint, err := url.Parse(os.Getenv("AWS_ENDPOINT_URL"))
	if err != nil {
		t.Fatal(err)
	}
	asked := s3.DefaultConfig
	asked.Endpoint = endpoint.Host
	asked.Insecure = endpoint.Scheme == "http"
	asked.AccessKey = os.Getenv("AWS_ACCESS_KEY_ID")
	asked.SecretKey = os.Getenv("AWS_SECRET_ACCESS_KEY")
	asked.BucketLookupType = s3.PathLookup
	return asked
}

// A bucket of its own for each test, which goes with it.
func newBucket(t *testing.T, asked s3.Config) objstore.Bucket {
	t.Helper()
	bucket, remove, err := s3.NewTestBucketFromConfig(t, "us-east-1", asked, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	return bucket
}
