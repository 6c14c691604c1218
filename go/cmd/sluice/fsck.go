package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"sluice/go/internal/daemon"
	"sluice/go/internal/store"
	"sluice/go/internal/store/journal"
)

func fsckCommand() *cobra.Command {
	var inJSON bool
	cmd := &cobra.Command{
		Use: "fsck DIR", Short: "read a data directory and name all damage", Args: cobra.ExactArgs(1),
		Long: `Reads every byte of the journal and the index in a data directory that no daemon uses, and
names what is lost, byte by byte. It changes nothing: what can be mended, the next start mends (an
index that is missing or damaged is built again from the journal), and what is lost stays lost; its
files are kept. Exit code 1: something is damaged.

A last group "in doubt" is what every stop leaves, and a torn one is what a power cut leaves of a
group that nobody was told is stored. Neither is damage. How far it is goes to stderr.`,
		Example: `  sluice fsck /var/lib/sluice
  sluice fsck /var/lib/sluice --json | jq '.damage[]'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := args[0]
			r, err := store.Check(dir, fsckProgress(cmd.ErrOrStderr(), time.Now))
			switch {
			case errors.Is(err, store.ErrLocked):
				return fmt.Errorf("%w; stop it first, or ask it: `sluice status` names the damage it knows",
					err)
			case errors.Is(err, fs.ErrNotExist):
				return usagef("%s is no data directory of sluice: %w", dir, err)
			case err != nil:
				return err
			}
			others := foreignNames(dir, r.Others)
			if inJSON {
				err = jsonLine(cmd.OutOrStdout(), newFsckShape(r, others))
			} else {
				err = printFsck(cmd.OutOrStdout(), r, others)
			}
			if err == nil && r.Damaged() {
				err = silent{exitFailed}
			}
			return err
		},
	}
	asJSON(cmd, &inJSON, false)
	return cmd
}

// fsckProgress says how far a check is, on a terminal more often than to a log.
func fsckProgress(w io.Writer, now func() time.Time) func(store.CheckProgress) {
	every := 10 * progressEvery
	if isTerminal(w) {
		every = progressEvery
	}
	told := now()
	return func(p store.CheckProgress) {
		if at := now(); at.Sub(told) >= every {
			told = at
			if p.JournalTotal == 0 {
				fmt.Fprintf(w, "index: %s so far\n", plural(p.IndexRows, "row", "rows"))
				return
			}
			fmt.Fprintf(w, "journal: %s of %s, %d %%\n", bytesText(uint64(p.JournalBytes)),
				bytesText(uint64(p.JournalTotal)), 100*p.JournalBytes/p.JournalTotal)
		}
	}
}

// foreignNames leaves out what a daemon keeps beside its store, and sockets.
func foreignNames(dir string, names []string) (foreign []string) {
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if !daemon.Owns(name) && (err != nil || info.Mode()&os.ModeSocket == 0) {
			foreign = append(foreign, name)
		}
	}
	return foreign
}

func printFsck(w io.Writer, r *store.CheckReport, others []string) error {
	var b strings.Builder
	j := &r.Journal
	fmt.Fprintf(&b, "journal %x: %s, %s, %s, %s\n", j.JournalID,
		plural(j.Groups, "group", "groups"), plural(j.Events, "event", "events"),
		plural(uint64(len(j.Segments)), "segment", "segments"), bytesText(uint64(j.Bytes)))
	if j.Doubt {
		fmt.Fprintf(&b, "last group %d is in doubt, as after every stop; the next start writes it "+
			"again\n", j.LastGroup)
	}
	if t := j.Torn; t != nil {
		fmt.Fprintf(&b, "torn: group %d at byte %d of %s; nobody was told that it is stored\n", t.Group,
			t.Offset, t.File)
	}
	switch r.IndexState {
	case store.IndexWhole:
		fmt.Fprintf(&b, "index: %s, at group %d\n", plural(r.Index.Events, "event", "events"),
			r.Index.Applied)
	case store.IndexUnreadable:
		fmt.Fprintf(&b, "index is %s: %s; a start is refused by it as well. Nothing is lost: the "+
			"journal has all that is in it\n",
			r.IndexState, r.IndexDetail)
	default:
		fmt.Fprintf(&b, "index is %s: %s; the next start builds it again from the journal\n",
			r.IndexState, r.IndexDetail)
	}
	for _, name := range j.Foreign {
		others = append(others, filepath.Join("journal", name))
	}
	for _, name := range others {
		fmt.Fprintf(&b, "not of this journal, left alone: %s\n", printable(name))
	}
	for _, name := range j.Kept {
		fmt.Fprintf(&b, "damaged in an earlier life, kept for good: %s\n", name)
	}
	for _, d := range j.Damage {
		fmt.Fprintf(&b, "DAMAGED %s\n", d)
	}
	if n := len(j.Damage); n > 0 {
		fmt.Fprintf(&b, "%s; lost: %s of groups or single events\n",
			plural(uint64(n), "damaged place", "damaged places"), number(j.Lost))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

type fsckShape struct {
	Damaged   bool          `json:"damaged"`
	JournalID string        `json:"journal_id"`
	Groups    uint64        `json:"groups"`
	Events    uint64        `json:"events"`
	Segments  int           `json:"segments"`
	Bytes     int64         `json:"bytes"`
	LastGroup uint64        `json:"last_group"`
	Doubt     bool          `json:"doubt"`
	Torn      *tornShape    `json:"torn"`
	Index     indexShape    `json:"index"`
	Damage    []damageShape `json:"damage"`
	Foreign   []string      `json:"foreign"`
	Kept      []string      `json:"kept"`
}

type tornShape struct {
	File   string `json:"file"`
	Offset int64  `json:"offset"`
	Group  uint64 `json:"group"`
}

type indexShape struct {
	State        string `json:"state"`
	Detail       string `json:"detail"`
	AppliedGroup uint64 `json:"applied_group"`
	Events       uint64 `json:"events"`
}

type damageShape struct {
	Kind       string `json:"kind"`
	File       string `json:"file"`
	Segment    uint64 `json:"segment"`
	Offset     int64  `json:"offset"`
	Length     int64  `json:"length"`
	FirstGroup uint64 `json:"first_group"`
	LastGroup  uint64 `json:"last_group"`
	Detail     string `json:"detail"`
}

func newFsckShape(r *store.CheckReport, others []string) fsckShape {
	j := &r.Journal
	s := fsckShape{
		Damaged: r.Damaged(), JournalID: fmt.Sprintf("%x", j.JournalID), Groups: j.Groups,
		Events: j.Events, Segments: len(j.Segments), Bytes: j.Bytes, LastGroup: j.LastGroup,
		Doubt:  j.Doubt,
		Index:  indexShape{string(r.IndexState), r.IndexDetail, r.Index.Applied, r.Index.Events},
		Damage: []damageShape{}, Foreign: list(others), Kept: list(j.Kept),
	}
	for _, name := range j.Foreign {
		s.Foreign = append(s.Foreign, filepath.Join("journal", name))
	}
	if j.Torn != nil {
		s.Torn = &tornShape{j.Torn.File, j.Torn.Offset, j.Torn.Group}
	}
	for _, d := range j.Damage {
		s.Damage = append(s.Damage, newDamageShape(d))
	}
	return s
}

func newDamageShape(d journal.Damage) damageShape {
	return damageShape{d.Kind.String(), d.File, d.Segment, d.Offset, d.Length, d.FirstGroup,
		d.LastGroup, d.Detail}
}
