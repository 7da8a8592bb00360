package line

import "os"

// readable makes dir one that sessions, which run under other uids, can read files of. One that is so already stays as
// it is: a pod's volume belongs to root, and only its owner could change it.
func readable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode()&0o005 == 0o005 {
		return err
	}
	return os.Chmod(dir, 0o755)
}
