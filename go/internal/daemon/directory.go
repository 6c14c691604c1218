package daemon

import "strings"

// owned are the names in the data directory beside the store's own (see store.CheckReport.Others).
// Files among them are replaced as a whole, or set aside where they are damaged, under the same
// name with something behind it.
var owned = []struct {
	name   string
	folder bool
}{
	{gapsFile, false}, {reconcileDir, true}, {rhythmFile, false}, {secretsFolder, true},
	{standingFile, false}, {ticketFile, false},
}

// Owns tells whether a daemon puts what has this name into its data directory.
func Owns(name string) bool {
	for _, o := range owned {
		if name == o.name || !o.folder && strings.HasPrefix(name, o.name+".") {
			return true
		}
	}
	return false
}
