//go:build gcs

package blob

import _ "gocloud.dev/blob/gcsblob" // gs://; behind a tag, since it makes the programs half as large again

func init() { schemes = append(schemes, "gs") }
