package catalogue

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sluice/go/internal/provider"
)

//go:embed profiles/*.yaml
var files embed.FS

// profiles reads all of them once. A profile that does not parse is a fault of this program and
// cannot reach a release: the tests read each.
var profiles = sync.OnceValue(func() map[string]*provider.Scheme {
	entries, err := files.ReadDir("profiles")
	if err != nil {
		panic(fmt.Sprintf("embedded profiles: %v", err))
	}
	all := make(map[string]*provider.Scheme, len(entries))
	for _, entry := range entries {
		text, err := files.ReadFile("profiles/" + entry.Name())
		if err != nil {
			panic(fmt.Sprintf("embedded profile %s: %v", entry.Name(), err))
		}
		scheme, err := Parse(text)
		if err != nil {
			panic(fmt.Sprintf("embedded profile %s: %v", entry.Name(), err))
		}
		scheme.Name = strings.TrimSuffix(entry.Name(), ".yaml")
		all[scheme.Name] = scheme
	}
	return all
})

// Lookup finds a built-in profile. It is shared and must not be changed.
func Lookup(name string) (*provider.Scheme, bool) {
	scheme, found := profiles()[name]
	return scheme, found
}

// Names are the names of all built-in profiles in sorted order.
func Names() []string {
	names := make([]string, 0, len(profiles()))
	for name := range profiles() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
