// Package config reads sluice.yaml into one typed, complete value, or says everything that is wrong
// with it.
//
// It opens no socket, makes no folder and knows no provider: what a provider is called, which
// deadline it has and whether a scheme of the operator's own holds together comes in by callbacks.
// It decides nothing at run time either; a Config is read once and never changes.
//
// A file is read as YAML nodes, never decoded by reflection, for two reasons: every fault is found
// in one go, each with the line it stands on; and an unknown or repeated key is a fault and not a
// silence.
//
// What holds and yet is hardly meant is a warning (doubt.go), which comes with the Config.
//
// Paths written in the file are relative to the file's folder. The default data_dir, which no file
// names, is relative to the working directory.
package config
