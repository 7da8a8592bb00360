//go:build gcs

package blob

import _ "gocloud.dev/blob/gcsblob" // gs://
