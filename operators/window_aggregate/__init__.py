"""The one life of a window aggregate: `shell` lives it, a store (`store.WindowStore`) holds the open windows."""
