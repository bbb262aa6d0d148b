// Placeholder removed by the first source of this room.
