// Package viewertest makes output directories that a viewer has to cope with, from the rollouts of a real run.
package viewertest
