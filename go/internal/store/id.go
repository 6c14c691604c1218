package store

import (
	"path/filepath"

	"sluice/go/internal/store/journal"
	"sluice/go/internal/store/vfs"
)

// JournalID reads the id of the journal in a data directory without opening it, so that what shared
// memory remembers of it can be handed to Open. The zero id: there is no journal yet.
func JournalID(dir string) ([16]byte, error) {
	return journal.ReadID(vfs.OS(), filepath.Join(dir, "journal"))
}
